"""The Hub's cache on this disk: repositories found in it, and files fetched into it whole.

The layout is huggingface_hub's ("Understand caching"): ``models--org--name/{blobs/<etag>, refs/<revision>, snapshots/<commit>/<file>}``,
each file of a snapshot a link to ``../../blobs/<etag>``. Its own downloads are not used: they name blobs and snapshots as the server
says, which a hostile one can use to write elsewhere, and write whatever comes. Here a blob is named by the digest that the Hub lists,
and takes that name only when its bytes have it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from contract.errors import InputRejected
from contract.files.hub_http import RANGE_BYTES, HubClient
from contract.files.hub_id import HubId, is_commit
from contract.files.hub_repository import HubFile, Repository, cache_name
from contract.files.hub_rules import refused, unavailable
from contract.files.names import shown
from contract.files.paths import open_path
from contract.findings import Where

COMMIT_BYTES: Final = 64
"""A file under ``refs`` holds a commit and nothing else."""


def cache_folder() -> Path:
    """``HF_HUB_CACHE``, as huggingface_hub has it. Raises ToolError (``hub.not-installed``)."""
    try:
        from huggingface_hub import constants
    except ImportError:
        raise unavailable("hub.not-installed", "huggingface_hub is not installed") from None
    return Path(constants.HF_HUB_CACHE)


def offline() -> bool:
    """Whether ``HF_HUB_OFFLINE`` is set, as huggingface_hub reads it."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def is_repository_folder(path: Path) -> bool:
    """True for ``models--org--name`` itself, in which the snapshots are."""
    return path.name.startswith("models--") and (path / "snapshots").is_dir()


def snapshot_in(home: Path, revision: str | None) -> Path:
    """The snapshot of a repository's folder: of a commit or a branch, else of ``main``, else the only one.

    Raises:
        InputRejected: rule ``hub.offline``: it is not there, or it is not clear which.
    """
    snapshots = home / "snapshots"
    commit = revision if is_commit(revision) else _ref(home, revision or "main")
    if commit is not None and (snapshots / commit).is_dir():
        return snapshots / commit
    held = sorted(p.name for p in snapshots.iterdir() if p.is_dir()) if snapshots.is_dir() else []
    if revision is None and len(held) == 1:
        return snapshots / held[0]
    said = f"the snapshot of {revision or 'main'}" + (f" ({', '.join(held[:4])} are there)" if held else "")
    raise refused("hub.offline", f"{home} holds not {said}", where=Where(file=str(home)))


def _ref(home: Path, revision: str) -> str | None:
    try:
        with open_path(home / "refs" / revision) as opened:
            text = opened.read(0, min(COMMIT_BYTES, opened.size)).decode("ascii").strip()
    except (InputRejected, UnicodeDecodeError):
        return None
    return text if is_commit(text) else None


def cached_snapshot(asked: HubId) -> Path:
    """The snapshot of a repository in the cache, for work offline. Raises like ``snapshot_in``."""
    try:
        return snapshot_in(cache_folder() / cache_name(asked), asked.revision)
    except InputRejected as error:
        text = f"HF_HUB_OFFLINE is set, and the cache does not hold {asked}"
        raise refused("hub.offline", text, where=error.where) from None


def cached_file(repository: Repository, file: HubFile) -> Path | None:
    """The blob of a file, if the cache has it whole."""
    blob = cache_folder() / repository.folder / "blobs" / file.etag
    return blob if not blob.is_symlink() and blob.is_file() and blob.stat().st_size == file.size else None


def fetch_snapshot(client: HubClient, repository: Repository, *, allow_pickle: bool = False) -> Path:
    """Fetch every data file of a repository into the cache; the folder of the snapshot.

    Raises:
        InputRejected: a file is not what the Hub lists; the cache cannot be written.
        LimitExceeded: ``hub_download_bytes``, before anything is fetched.
        ToolError: the Hub cannot be reached.
    """
    wanted = [file for file in repository.files if file.is_data(allow_pickle=allow_pickle)]
    client.limits.enforce("hub_download_bytes", sum(file.size for file in wanted), what=f"{repository.asked}: the files together")
    home = cache_folder() / repository.folder
    snapshot = home / "snapshots" / repository.commit
    try:
        for file in wanted:
            blob = cached_file(repository, file) or _fetch(client, repository, file, home / "blobs")
            _link(snapshot, file.name, blob.name)
        snapshot.mkdir(parents=True, exist_ok=True)
        if not repository.asked.pinned:
            _remember(home / "refs", repository.asked.revision or "main", repository.commit)
    except OSError as error:
        raise refused("hub.cache", f"{home}: {error.strerror or error}", where=Where(file=str(home))) from error
    return snapshot


def _fetch(client: HubClient, repository: Repository, file: HubFile, blobs: Path) -> Path:
    """Fetch one file to its blob, hashed on the way."""
    blobs.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256() if len(file.etag) == 64 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    fd, temporary = tempfile.mkstemp(prefix=f"{file.etag[:16]}.", suffix=".incomplete", dir=blobs)
    try:
        with os.fdopen(fd, "wb") as out:
            for begin in range(0, file.size, RANGE_BYTES):
                end = min(begin + RANGE_BYTES, file.size)
                data = client.bytes_at(repository.asked.repository, repository.commit, file.name, begin, end, file.size, counted=False)
                digest.update(data)
                out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != file.etag:
            raise refused(
                "hub.wrong-content",
                f"{repository.asked}: {shown(file.name)} has the digest {digest.hexdigest()}, the Hub lists {file.etag}",
                where=Where(file=shown(file.name)),
            )
        os.chmod(temporary, 0o644)
        os.replace(temporary, blobs / file.etag)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return blobs / file.etag


def _link(snapshot: Path, name: str, blob: str) -> None:
    place = snapshot / name
    target = "../" * (2 + name.count("/")) + f"blobs/{blob}"
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() and os.readlink(place) == target:
        return
    with tempfile.TemporaryDirectory(prefix=".link.", dir=snapshot.parent) as beside:
        link = Path(beside) / "link"
        link.symlink_to(target)
        os.replace(link, place)


def _remember(refs: Path, revision: str, commit: str) -> None:
    place = refs / revision
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", prefix=".ref.", dir=place.parent, delete=False) as file:
        file.write(commit)
    os.replace(file.name, place)
