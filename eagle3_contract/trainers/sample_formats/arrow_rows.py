"""Rows of the whole-number lists in a data set that Hugging Face ``datasets`` saved: just enough of Arrow's IPC stream format.

A reader of our own, because pyarrow and datasets are large and only the loss mask is wanted. Format: Arrow columnar format 1.5, "IPC
streaming format", and its flatbuffers schemas Message.fbs and Schema.fbs. Anything beyond plain lists of whole numbers without nulls is
refused by name. Nothing is trusted: every offset is checked against the bytes that exist.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from contract.errors import InputRejected
from contract.files.paths import OpenedFile, open_path
from contract.findings import Json, Where
from contract.jsonio import load_json_file

WANTED: Final = ("input_ids", "loss_mask")
STATE: Final = "state.json"
MAX_MESSAGE_BYTES: Final = 1 << 20
"""A message's metadata: the schema of a data set is a few kilobytes."""
MAX_DEPTH: Final = 8
MAX_FIELDS: Final = 4096
"""Columns and what they hold, in all: offsets may name one table again and again, so that few bytes can spell any number of them."""
MAX_NAME: Final = 1024
_CONTINUATION: Final = 0xFFFFFFFF
_SCHEMA, _RECORD_BATCH = 1, 3
_INT, _LIST, _LARGE_LIST = 2, 12, 21
_BUFFERS: Final = {1: 0, 2: 2, 3: 2, 4: 3, 5: 3, 6: 2, 8: 2, 9: 2, 10: 2, 12: 2, 13: 1, 15: 2, 16: 1, 18: 2, 19: 3, 20: 3, 21: 2}
"""Buffers of a column by its type number in Schema.fbs (Null 1, Int 2, ... LargeList 21), its children's not counted."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: int
    bits: int
    signed: bool
    children: tuple[_Field, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """A wanted column, and the numbers of its first node and its first buffer in every record batch."""

    field: _Field
    node: int
    buffer: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """A record batch: how many rows, and for each wanted column its buffers as (offset in the file, bytes)."""

    path: Path
    rows: int
    columns: dict[str, tuple[_Field, tuple[int, int], tuple[int, int]]]


class ArrowRows:
    """The rows of a saved data set. Only the batches' headers are held; a row is read when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._batches = [batch for path in _files(folder) for batch in _batches(path)]

    def __len__(self) -> int:
        return sum(batch.rows for batch in self._batches)

    def row(self, index: int) -> dict[str, list[int]]:
        """``input_ids`` and ``loss_mask`` of one row. Raises InputRejected (``samples.data-set``) if there is no such row."""
        at = index
        for batch in self._batches:
            if at < batch.rows:
                with open_path(batch.path) as opened:
                    return {name: _values(opened, *column, at) for name, column in batch.columns.items()}
            at -= batch.rows
        raise _refuse(self.folder, f"has {len(self)} rows; row {index} was asked for")


@lru_cache(maxsize=4)
def open_rows(folder: Path) -> ArrowRows:
    """The rows of the data set saved in a folder. Raises InputRejected (``samples.data-set``)."""
    return ArrowRows(folder)


def _files(folder: Path) -> list[Path]:
    """The data files in the order that state.json lists them (datasets: ``_data_files``), else by name."""
    state = folder / STATE
    if not state.is_file():
        return sorted(folder.glob("*.arrow"))
    listed: Json = load_json_file(state)
    names = [f.get("filename") for f in listed.get("_data_files", [])] if isinstance(listed, dict) else []
    if not names or not all(isinstance(n, str) and Path(n).name == n for n in names):
        raise _refuse(state, "lists no data files")
    return [folder / name for name in names]


def _batches(path: Path) -> Iterator[_Batch]:
    with open_path(path) as opened:
        wanted: dict[str, _Column] | None = None
        at = 0
        while at + 8 <= opened.size:
            try:
                marker, length = struct.unpack("<Ii", opened.read(at, 8))
                if marker != _CONTINUATION or not 0 <= length <= min(MAX_MESSAGE_BYTES, opened.size - at - 8):
                    raise _refuse(path, f"is no Arrow stream at byte {at}")
                if length == 0:
                    return
                message = _Table.root(opened.read(at + 8, length))
                body, kind, header = message.number(3, "<q"), message.number(1, "<B"), message.table(2)
                start, at = at + 8 + length, at + 8 + length + body
                if body < 0 or at > opened.size or header is None:
                    raise _refuse(path, "is cut short")
                if kind == _SCHEMA and wanted is None:
                    wanted = _wanted(_Fields().under(header, 1, 0), path)
                elif kind == _RECORD_BATCH and wanted is not None:
                    yield _batch(path, header, wanted, start, body)
                else:
                    raise _refuse(path, f"holds a message of kind {kind}, which is neither the schema nor a record batch after it")
            except (struct.error, IndexError, UnicodeDecodeError) as error:
                raise _refuse(path, f"is malformed: {error}") from None


def _wanted(fields: tuple[_Field, ...], path: Path) -> dict[str, _Column]:
    columns: dict[str, _Column] = {}
    node, buffer = 0, 0
    for field in fields:
        if field.name in WANTED:
            if field.kind not in (_LIST, _LARGE_LIST) or field.children[0].kind != _INT or field.children[0].bits not in (8, 16, 32, 64):
                raise _refuse(path, f"column {field.name} is no list of whole numbers")
            columns[field.name] = _Column(field, node, buffer)
        node, buffer = node + _count(field), buffer + _buffers(field, path)
    if missing := [name for name in WANTED if name not in columns]:
        raise _refuse(path, f"has no column {missing[0]}")
    return columns


def _batch(path: Path, header: _Table, wanted: dict[str, _Column], start: int, body: int) -> _Batch:
    if header.table(3) is not None:
        raise _refuse(path, "is compressed; save the data set without compression")
    rows, nodes, buffers = header.number(0, "<q"), header.structs(1, "<qq"), header.structs(2, "<qq")
    if any(offset < 0 or size < 0 or offset + size > body for offset, size in buffers):
        raise _refuse(path, "has a buffer outside its message")
    columns: dict[str, tuple[_Field, tuple[int, int], tuple[int, int]]] = {}
    for name, column in wanted.items():
        field, node, buffer = column.field, column.node, column.buffer
        if nodes[node][0] != rows or any(nulls for _, nulls in nodes[node : node + 2]):
            raise _refuse(path, f"column {name} has nulls or another length than the batch")
        offsets, values = buffers[buffer + 1], buffers[buffer + 3]
        if not 0 <= rows < offsets[1] // (8 if field.kind == _LARGE_LIST else 4):
            raise _refuse(path, f"column {name} has no offsets for {rows} rows")
        columns[name] = (field, (start + offsets[0], offsets[1]), (start + values[0], values[1]))
    return _Batch(path, rows, columns)


def _values(opened: OpenedFile, field: _Field, offsets: tuple[int, int], values: tuple[int, int], row: int) -> list[int]:
    wide = field.kind == _LARGE_LIST
    width = 8 if wide else 4
    if (row + 2) * width > offsets[1]:
        raise _refuse(Path(opened.name), f"column {field.name}: row {row} has no offsets")
    begin, end = struct.unpack("<qq" if wide else "<ii", opened.read(offsets[0] + row * width, 2 * width))
    item = field.children[0]
    size = item.bits // 8
    if not 0 <= begin <= end or end * size > values[1]:
        raise _refuse(Path(opened.name), f"column {field.name}: row {row} is outside its values")
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    data = opened.read(values[0] + begin * size, (end - begin) * size)
    return list(struct.unpack(f"<{end - begin}{code if item.signed else code.upper()}", data))


class _Fields:
    """Reads the fields of a schema, and counts them before it looks at them."""

    def __init__(self) -> None:
        self._seen = 0

    def under(self, table: _Table, slot: int, depth: int) -> tuple[_Field, ...]:
        """The fields in a vector of tables. Raises IndexError for one too many."""
        self._seen += table.length(slot)
        if self._seen > MAX_FIELDS:
            raise IndexError(f"more than {MAX_FIELDS} columns")
        return tuple(self._field(child, depth) for child in table.tables(slot))

    def _field(self, table: _Table, depth: int) -> _Field:
        if depth > MAX_DEPTH:
            raise IndexError("columns nest too deep")
        kind, type_ = table.number(2, "<B"), table.table(3)
        bits = type_.number(0, "<i") if type_ is not None and kind == _INT else 0
        signed = type_ is not None and kind == _INT and bool(type_.number(1, "<B"))
        children = self.under(table, 5, depth + 1)
        if kind in (_LIST, _LARGE_LIST) and len(children) != 1:
            raise IndexError("a list column without items")
        return _Field(table.text(0), kind, bits, signed, children)


def _count(field: _Field) -> int:
    return 1 + sum(_count(child) for child in field.children)


def _buffers(field: _Field, path: Path) -> int:
    if field.kind not in _BUFFERS:
        raise _refuse(path, f"column {field.name} has a type of number {field.kind}, which is not read")
    return _BUFFERS[field.kind] + sum(_buffers(child, path) for child in field.children)


class _Table:
    """A flatbuffers table; every access is bounds-checked by ``struct``."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._vtable = at - self._read("<i", at)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        (at,) = struct.unpack_from("<I", data, 0)
        return cls(data, at)

    def _read(self, code: str, at: int) -> int:
        if at < 0:
            raise IndexError("an offset before the message")
        value: int = struct.unpack_from(code, self._data, at)[0]
        return value

    def _slot(self, index: int) -> int | None:
        """Where field ``index`` is, or None if it is absent."""
        size = self._read("<H", self._vtable)
        if 4 + 2 * index + 2 > size:
            return None
        offset = self._read("<H", self._vtable + 4 + 2 * index)
        return self._at + offset if offset else None

    def number(self, index: int, code: str) -> int:
        """A scalar field; 0 if absent."""
        at = self._slot(index)
        return 0 if at is None else self._read(code, at)

    def table(self, index: int) -> _Table | None:
        at = self._slot(index)
        return None if at is None else _Table(self._data, at + self._read("<I", at))

    def text(self, index: int) -> str:
        at = self._slot(index)
        if at is None:
            return ""
        start = at + self._read("<I", at)
        length = self._read("<I", start)
        if start + 4 + length > len(self._data) or length > MAX_NAME:
            raise IndexError("a name beyond the message, or too long")
        return self._data[start + 4 : start + 4 + length].decode()

    def _vector(self, index: int, size: int) -> range:
        at = self._slot(index)
        if at is None:
            return range(0)
        start = at + self._read("<I", at)
        length = self._read("<I", start)
        if start + 4 + length * size > len(self._data):
            raise IndexError("a vector beyond the message")
        return range(start + 4, start + 4 + length * size, size)

    def length(self, index: int) -> int:
        """Items of a vector of tables; 0 if absent."""
        return len(self._vector(index, 4))

    def tables(self, index: int) -> list[_Table]:
        return [_Table(self._data, at + self._read("<I", at)) for at in self._vector(index, 4)]

    def structs(self, index: int, code: str) -> list[tuple[int, int]]:
        return [(pair[0], pair[1]) for at in self._vector(index, 16) for pair in (struct.unpack_from(code, self._data, at),)]


def _refuse(path: Path, what: str) -> InputRejected:
    return InputRejected(
        f"{path} {what}", rule="samples.data-set", fix="Save the data set again with datasets' save_to_disk.", where=Where(file=str(path))
    )
