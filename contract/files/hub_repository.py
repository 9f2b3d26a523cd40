"""What a repository of the Hub holds at one commit: names, sizes and digests, as the Hub lists them, each checked before it is used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

from contract.errors import InputRejected
from contract.files.hub_http import HubClient
from contract.files.hub_id import HubId, is_commit
from contract.files.hub_rules import refused
from contract.files.names import shown
from contract.files.paths import relative_parts
from contract.findings import Where
from contract.limits import Limits

DATA_ENDINGS: Final = frozenset(
    {".safetensors", ".json", ".jsonl", ".yaml", ".yml", ".txt", ".md", ".model", ".tiktoken", ".jinja", ".arrow", ".npy", ".gguf"}
)
"""Files that are read; everything else, code above all, is not fetched."""
PICKLE_ENDINGS: Final = frozenset({".bin", ".pt", ".pth", ".ckpt"})
"""Fetched only where pickles are allowed."""
_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file. ``etag`` is its digest and its name in the cache: SHA-256 of a large file, git's blob id of a small one."""

    name: str
    size: int
    etag: str

    def is_data(self, *, allow_pickle: bool = False) -> bool:
        """True if the file is one that is ever read."""
        ending = PurePosixPath(self.name).suffix.lower()
        return ending in DATA_ENDINGS or (allow_pickle and ending in PICKLE_ENDINGS)


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit.

    Attributes:
        asked: as the user named it.
        commit: the 40 characters that its revision stands for now.
        files: every file, by name.
    """

    asked: HubId
    commit: str
    files: tuple[HubFile, ...]

    @property
    def folder(self) -> str:
        """The name of its folder in the cache."""
        return cache_name(self.asked)


def cache_name(asked: HubId) -> str:
    """The name of a repository's folder in the Hub's cache (huggingface_hub, "Understand caching")."""
    return "models--" + asked.repository.replace("/", "--")


def look_up(client: HubClient, asked: HubId) -> Repository:
    """Ask the Hub for the commit and the files of a repository.

    Raises:
        InputRejected: there is no such repository or revision; the answer is malformed, for another commit, or lists a name that leaves
            the folder.
        LimitExceeded: ``folder_files``, ``name_length``.
        ToolError: the Hub cannot be reached.
    """
    what = f"the list of {asked}"
    said = client.listing(asked.repository, asked.revision or "main")
    commit = said.get("sha") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(commit, str) or not is_commit(commit):
        raise refused("hub.answer", f"{what} names no commit")
    if asked.pinned and commit != asked.revision:
        raise refused("hub.answer", f"{what} is for the commit {commit}")
    entries = said.get("siblings")
    if not isinstance(entries, list):
        raise refused("hub.answer", f"{what} has no files")
    client.limits.enforce("folder_files", len(entries), what=what)
    files = sorted((_file(entry, what, client.limits) for entry in entries), key=lambda file: file.name)
    names = [file.name for file in files]
    twice = next((a for a, b in pairwise(names) if a == b), None)
    if twice is not None:
        raise refused("hub.answer", f"{what} has {shown(twice)} twice")
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    both = next((name for name in names if name in folders), None)
    if both is not None:
        raise refused("hub.answer", f"{what} has {shown(both)} as a file and as a folder")
    return Repository(asked, commit, tuple(files))


def _file(entry: Any, what: str, limits: Limits) -> HubFile:
    name = entry.get("rfilename") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        raise refused("hub.answer", f"{what} has a file without a name")
    limits.enforce("name_length", len(name), what=f"{what}: a name")
    try:
        relative_parts(name)
    except InputRejected as error:
        raise refused("hub.answer", f"{what}: {error.message}", where=error.where) from None
    large = entry.get("lfs")
    size, etag = entry.get("size"), entry.get("blobId")
    if isinstance(large, dict):
        size, etag = large.get("size", size), large.get("sha256")
    digest = _SHA256 if isinstance(large, dict) else _SHA1
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**53:
        raise refused("hub.answer", f"{what}: {shown(name)} has the size {size!r:.40}", where=Where(file=shown(name)))
    if not isinstance(etag, str) or digest.fullmatch(etag) is None:
        raise refused("hub.answer", f"{what}: {shown(name)} has no digest", where=Where(file=shown(name)))
    return HubFile(name, size, etag)
