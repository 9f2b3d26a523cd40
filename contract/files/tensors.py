"""Tensors that are still on disk: where they are, and reading them whole or by rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from contract.errors import InternalError
from contract.files.dtypes import DTYPE_BITS
from contract.files.header_strict import TensorEntry
from contract.files.paths import CHUNK_BYTES, Identity, OpenedFile
from contract.files.safetensors_header import Header


@dataclass(frozen=True, slots=True)
class Shard:
    """A weight file whose header was read.

    Attributes:
        name: relative to the checkpoint.
        header: its tensors.
        identity: what the file was when the header was read; every later read insists on it.
        opener: opens the file again.
    """

    name: str
    header: Header
    identity: Identity
    opener: Callable[[], OpenedFile]

    def open(self) -> OpenedFile:
        """Open the file. Raises InputRejected (``files.changed-while-reading``) if it is no longer the same."""
        opened = self.opener()
        if opened.identity != self.identity:
            opened.close()
            raise opened.changed("it is not the file whose header was read")
        return opened


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor on disk.

    Attributes:
        name: its name.
        dtype: safetensors dtype, e.g. ``BF16``; not necessarily one that the format defines.
        shape: its dimensions.
        file: the file it is in, relative to the checkpoint.
        offset: where its bytes begin in that file.
        nbytes: how many there are.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    offset: int
    nbytes: int
    shard: Shard = field(repr=False, compare=False)

    def read_into(self, buffer: bytearray | memoryview) -> None:
        """Fill a buffer of ``nbytes`` bytes. Raises InputRejected if the file changed or cannot be read."""
        with self.shard.open() as opened:
            opened.read_into(self.offset, buffer)
            opened.verify_unchanged()

    def read_bytes(self) -> bytearray:
        """The tensor's bytes. Raises like ``read_into``."""
        buffer = bytearray(self.nbytes)
        self.read_into(buffer)
        return buffer

    @property
    def row_bytes(self) -> int:
        """Bytes of one row (an index of the first dimension). Raises InternalError where rows are no whole bytes."""
        whole, rest = divmod(math.prod(self.shape[1:]) * DTYPE_BITS.get(self.dtype, 0), 8)
        if not self.shape or rest or whole * self.shape[0] != self.nbytes:
            raise InternalError(f"{self.name}: {self.dtype} {list(self.shape)} has no rows of whole bytes")
        return whole

    def read_rows_into(self, rows: Sequence[int], buffer: bytearray | memoryview) -> None:
        """Fill a buffer with rows in the order asked, one read per run of adjacent rows; nothing else is read.

        Raises:
            InternalError: a row is not in the tensor.
            InputRejected: the file changed or cannot be read.
        """
        width, view = self.row_bytes, memoryview(buffer)
        if rows and not 0 <= min(rows) <= max(rows) < self.shape[0]:
            raise InternalError(f"{self.name} has {self.shape[0]} rows; asked for rows {min(rows)} to {max(rows)}")
        with self.shard.open() as opened:
            for place, count in _runs(rows):
                begin = self.offset + int(rows[place]) * width
                opened.read_into(begin, view[place * width : (place + count) * width])
            opened.verify_unchanged()

    def read_rows(self, rows: Sequence[int]) -> bytearray:
        """The bytes of rows in the order asked. Raises like ``read_rows_into``."""
        buffer = bytearray(len(rows) * self.row_bytes)
        self.read_rows_into(rows, buffer)
        return buffer


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(place, count) of each maximal run of rows that follow each other."""
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or rows[i] != rows[i - 1] + 1:
            yield start, i - start
            start = i


class Places(Mapping[str, str]):
    """Tensor name to the name of its shard, for shards that hold no name twice; made when first asked for more than its length."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._count = sum(len(shard.header) for shard in shards)

    @cached_property
    def _map(self) -> dict[str, str]:
        return {name: shard.name for shard in self._shards for name in shard.header.names}

    def __getitem__(self, name: str) -> str:
        return self._map[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._map)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: object) -> bool:
        return name in self._map


class TensorTable(Mapping[str, TensorRef]):
    """The tensors of several shards as one map; refs are made when asked for.

    A name that several shards hold belongs to the first of them; ``clashes`` lists such names.
    """

    def __init__(self, shards: Sequence[Shard], placed: Mapping[str, str] | None = None) -> None:
        """``placed``, if given, is known to map every tensor of the shards, and nothing else, to its shard."""
        self._shards = {shard.name: shard for shard in shards}
        self._total = sum(len(shard.header) for shard in shards)
        if placed is None:
            placed = {}
            for shard in reversed(shards):  # so that the first shard's names win
                placed.update(dict.fromkeys(shard.header.names, shard.name))
        self._placed = placed

    def __getitem__(self, name: str) -> TensorRef:
        shard = self._shards[self._placed[name]]
        return tensor_ref(shard, shard.header.entry(shard.header.row(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._placed)

    def __len__(self) -> int:
        return len(self._placed)

    def __contains__(self, name: object) -> bool:
        return name in self._placed

    def pick(self, names: Collection[str]) -> dict[str, TensorRef]:
        """Those of a few names that are there; much faster than asking for them, where nothing else is asked for."""
        wanted = set(names)
        found: dict[str, TensorRef] = {}
        for shard in self._shards.values():
            for name in wanted.intersection(shard.header.names) - found.keys():
                found[name] = tensor_ref(shard, shard.header.entry(shard.header.names.index(name)))
        return found

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the shards."""
        return tuple(self._shards)

    def clashes(self) -> dict[str, list[str]]:
        """Names that are in several shards, with the shards."""
        if len(self._placed) == self._total:
            return {}
        files: dict[str, list[str]] = {}
        for shard in self._shards.values():
            for name in shard.header.names:
                files.setdefault(name, []).append(shard.name)
        return {name: held for name, held in files.items() if len(held) > 1}


def tensor_ref(shard: Shard, entry: TensorEntry) -> TensorRef:
    """The ref of one entry of a shard."""
    return TensorRef(
        entry.name,
        entry.dtype,
        entry.shape,
        shard.name,
        shard.header.data_start + entry.begin,
        entry.end - entry.begin,
        shard,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive bytes of a tensor; ``data`` is overwritten when the next piece is asked for."""

    ref: TensorRef
    start: int
    data: memoryview


class HashingScan:
    """One pass over a shard that yields every tensor's bytes and hashes the file on the way.

    Iterate to the end, then ask for ``sha256``. Raises InputRejected if the file changed meanwhile.
    """

    def __init__(self, shard: Shard, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.shard = shard
        self._chunk = max(chunk_bytes // 64 * 64, 64)
        self._digest = hashlib.sha256()
        self._finished = False

    def __iter__(self) -> Iterator[Piece]:
        header = self.shard.header
        buffer = memoryview(bytearray(max(1, min(self._chunk, header.file_size))))
        with self.shard.open() as opened:
            for at in range(0, header.data_start, len(buffer)):
                part = buffer[: min(len(buffer), header.data_start - at)]
                opened.read_into(at, part)
                self._digest.update(part)
            for entry in sorted(header.entries, key=lambda e: (e.begin, e.end)):
                ref = tensor_ref(self.shard, entry)
                for at in range(0, ref.nbytes, len(buffer)):
                    part = buffer[: min(len(buffer), ref.nbytes - at)]
                    opened.read_into(ref.offset + at, part)
                    self._digest.update(part)
                    yield Piece(ref, at, part)
            opened.verify_unchanged()
        self._finished = True

    @property
    def sha256(self) -> str:
        """Hex digest of the whole file. Raises InternalError before the pass is over."""
        if not self._finished:
            raise InternalError(f"{self.shard.name}: the scan has not reached the end")
        return self._digest.hexdigest()
