"""A repository of the Hub as a folder whose files are read where they are: only the bytes that are asked for are fetched.

The folder holds an empty file for each file of the repository, in the layout of a snapshot, and is removed afterwards. Whoever reads
through ``contract.files.paths`` gets bytes of the Hub (``paths.back``); whoever does not finds an empty file, and no zeros that could
be taken for weights. YAML files are there whole, for they are read by their own door.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from contract.files.hub_cache import cache_folder, cached_file
from contract.files.hub_http import RANGE_BYTES, HubClient
from contract.files.hub_repository import HubFile, Repository
from contract.files.hub_rules import refused
from contract.files.paths import back, open_path, unback
from contract.findings import Where
from contract.limits import KIB

AHEAD_BYTES: Final = 128 * KIB
"""What is fetched of a file at its first byte: nearly every header of safetensors is shorter (huggingface_hub fetches 100 KB)."""
KEPT_BYTES: Final = 1024 * KIB
"""Pieces up to this size are kept, larger ones are read once."""
CONNECTIONS: Final = 8


class HubBytes:
    """A file of the Hub, read by ranges. ``Backing`` of ``contract.files.paths``."""

    def __init__(self, client: HubClient, repository: Repository, file: HubFile, beside: list[HubBytes]) -> None:
        """``beside``: weight files whose beginnings are fetched together with this one's, several at a time."""
        self.size = file.size
        self._client = client
        self._of = repository
        self._name = file.name
        self._kept: list[tuple[int, bytes]] = []
        self._beside = beside

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill the view. Raises as ``HubClient.bytes_at``."""
        for begin in range(0, len(view), RANGE_BYTES):
            part = view[begin : begin + RANGE_BYTES]
            part[:] = self._bytes(offset + begin, len(part))

    def _bytes(self, begin: int, count: int) -> bytes:
        if not count:
            return b""
        for start, data in self._kept:
            if start <= begin and begin + count <= start + len(data):
                return data[begin - start : begin - start + count]
        if self._beside:
            _fetch_beginnings(self._beside)
            return self._bytes(begin, count)
        end = min(self.size, max(begin + count, AHEAD_BYTES if begin == 0 else 0))
        data = self._client.bytes_at(self._of.asked.repository, self._of.commit, self._name, begin, end, self.size)
        if len(data) <= KEPT_BYTES:
            self._kept.append((begin, data))
        return data[:count]


class CachedBytes:
    """A file of the Hub that the cache holds whole."""

    def __init__(self, blob: Path, file: HubFile) -> None:
        self.size = file.size
        self._blob = blob

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill the view. Raises InputRejected if the blob was cut off meanwhile."""
        with open_path(self._blob) as opened:
            opened.read_into(offset, view)


@contextmanager
def mounted(client: HubClient, repository: Repository) -> Iterator[Path]:
    """The folder; it is there for the length of the block.

    Raises:
        InputRejected: rule ``hub.cache``: the cache cannot be written.
    """
    home = cache_folder()
    keys: list[tuple[int, int]] = []
    try:
        home.mkdir(parents=True, exist_ok=True)
        held = tempfile.TemporaryDirectory(prefix=".eagle3-contract-", dir=home)
    except OSError as error:
        raise refused("hub.cache", f"{home}: {error.strerror or error}", where=Where(file=str(home))) from error
    with held as place:
        folder = Path(place) / repository.folder / "snapshots" / repository.commit
        try:
            keys = _stand_ins(client, repository, folder)
            yield folder
        finally:
            for key in keys:
                unback(key)


def _stand_ins(client: HubClient, repository: Repository, folder: Path) -> list[tuple[int, int]]:
    keys: list[tuple[int, int]] = []
    weights: list[HubBytes] = []  # emptied at the first read of any of them
    try:
        folder.mkdir(parents=True)
        for file in repository.files:
            place = folder / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            if not file.is_data():
                continue
            blob = cached_file(repository, file)
            beside = weights if file.name.endswith(".safetensors") and "/" not in file.name else []
            backing = CachedBytes(blob, file) if blob is not None else HubBytes(client, repository, file, beside)
            if place.suffix in (".yaml", ".yml"):
                _whole(place, backing, client)
                continue
            keys.append(back(place, backing))
            if beside is weights and isinstance(backing, HubBytes):
                weights.append(backing)
    except OSError as error:
        for key in keys:
            unback(key)
        raise refused("hub.cache", f"{folder}: {error.strerror or error}", where=Where(file=str(folder))) from error
    return keys


def _fetch_beginnings(backings: list[HubBytes]) -> None:
    """Fetch the beginnings of weight files, several at a time; what fails here is told when that file is read."""
    waiting = list(backings)
    backings.clear()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(backing.read_into, 0, memoryview(bytearray(min(1, backing.size)))) for backing in waiting]:
            done.exception()


def _whole(place: Path, backing: HubBytes | CachedBytes, client: HubClient) -> None:
    """The bytes themselves; a file beyond ``yaml_bytes`` keeps its size, which its reader refuses."""
    if backing.size > client.limits.yaml_bytes:
        os.truncate(place, backing.size)
        return
    data = bytearray(backing.size)
    backing.read_into(0, memoryview(data))
    place.write_bytes(data)
