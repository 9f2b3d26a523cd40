"""Reading safetensors headers: strict, and nearly as fast as decoding them.

msgspec decodes the header into typed entries and checks JSON syntax, UTF-8, types and signs on the way. What it cannot see:

* duplicates (it keeps the last). Without a backslash in the text every quotation mark delimits a string. A header of n tensors
  and no duplicate holds exactly 5n strings (name, three field names, dtype), each duplicated name or field adds some. So two
  counts decide.
* sizes, order, overlap and holes: checked on columns, in numpy.

Anything out of the ordinary (a backslash, metadata that is not first, a failed check) goes to ``header_strict``, which decides
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from contract.files.counting import count_quotes
from contract.files.dtypes import DTYPE_BITS
from contract.files.header_strict import TensorEntry, parse_strict
from contract.files.names import unsafe
from contract.files.paths import OpenedFile, open_path
from contract.files.rules import Problem, problem, rejected
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits

Int64s = npt.NDArray[np.int64]

LENGTH_BYTES: Final = 8
_METADATA = re.compile(rb'\{[ \t\r\n]*"__metadata__"[ \t\r\n]*:[ \t\r\n]*(\{[^{}]*\})[ \t\r\n]*(?:,(?=[ \t\r\n]*")|(?=\}))')
_MAGICS: Final = ((b"PK\x03\x04", "zip (torch.save)"), (b"\x80", "pickle"), (b"\x1f\x8b", "gzip"), (b"\x93NUMPY", "npy"))

# A dtype that is none of the format's fails to decode, and the strict reader takes over.
_Dtype = Literal[
    "BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
    "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
]  # fmt: skip


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    dtype: _Dtype
    shape: list[int]  # msgspec makes a tuple of unknown length from a list
    data_offsets: tuple[int, int]


_decode_entries = msgspec.json.Decoder(dict[str, _Entry]).decode
_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode
_get_shape, _get_offsets, _get_dtype = attrgetter("shape"), attrgetter("data_offsets"), attrgetter("dtype")


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """A valid header, kept as columns in the order of the file.

    Attributes:
        file: name of the file, for messages.
        metadata: the ``__metadata__`` map.
        names, dtypes: one item per tensor. Treat as read-only.
        dims: the shapes, one behind the other; ``ranks`` says how many dimensions each has.
        begins, ends: byte range of each tensor, counted from ``data_start``.
        data_start: where the tensor data begin in the file.
        file_size: bytes of the file.
        leading_space: white space precedes the object.
        lowercase: every name is ASCII and its own lower case, so that no two can be mistaken for each other.
        plain: every dtype is one that the format defines, and no name holds a quotation mark, a backslash or a control character.
    """

    file: str
    metadata: Mapping[str, str]
    names: Sequence[str]
    dtypes: Sequence[str]
    dims: Int64s
    ranks: Int64s
    begins: Int64s
    ends: Int64s
    data_start: int
    file_size: int
    leading_space: bool
    lowercase: bool
    plain: bool
    _rows: dict[str, int] = field(default_factory=dict, repr=False)
    _starts: list[int] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """The row of a tensor. Raises KeyError if it is not here."""
        if not self._rows:
            self._rows.update(zip(self.names, range(len(self.names)), strict=True))
        return self._rows[name]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of every tensor."""
        flat, at = self.dims.tolist(), 0
        return [tuple(flat[at : (at := at + rank)]) for rank in self.ranks.tolist()]

    def entry(self, row: int) -> TensorEntry:
        """The tensor of one row."""
        if not self._starts:
            self._starts.extend((np.cumsum(self.ranks) - self.ranks).tolist())
        at = self._starts[row]
        shape = tuple(self.dims[at : at + int(self.ranks[row])].tolist())
        return TensorEntry(self.names[row], self.dtypes[row], shape, int(self.begins[row]), int(self.ends[row]))

    @property
    def entries(self) -> Iterator[TensorEntry]:
        """Every tensor, in the order of the file."""
        return map(TensorEntry, self.names, self.dtypes, self.shapes, self.begins.tolist(), self.ends.tolist())

    def problems(self) -> Iterator[Problem]:
        """What is valid but wrong: no tensors, an unknown dtype, white space before the object."""
        where = Where(file=self.file)
        if not self.names:
            yield problem("files.no-tensors", f"{self.file} holds no tensors", where=where)
        if self.leading_space:
            yield problem("files.header-leading-space", f"{self.file}: white space before the header", where=where)
        if not self.plain:
            for name, dtype in zip(self.names, self.dtypes, strict=True):
                if dtype not in DTYPE_BITS:
                    yield problem(
                        "files.unsupported-dtype",
                        f"{self.file}: tensor {name} has the unsupported dtype {dtype!r:.40}",
                        where=Where(file=self.file, tensor=name),
                        expected=list(DTYPE_BITS),
                        actual=dtype[:40],
                    )


def read_header(path: Any, *, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Read the header of the safetensors file at a path the user named. Raises like ``read_opened_header`` and ``open_path``."""
    with open_path(path) as opened:
        return read_opened_header(opened, limits=limits)


def read_opened_header(opened: OpenedFile, *, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Read and validate the header of an open safetensors file; no tensor data are read.

    Raises:
        InputRejected: with the rule that is broken (``contract.files.rules``).
        LimitExceeded: header bytes, tensors, dimensions or name length.
    """
    where = Where(file=opened.name)
    if opened.size < LENGTH_BYTES:
        raise rejected(
            "files.header-too-small", f"{opened.name} has {opened.size} bytes, less than the 8 of the header length", where=where
        )
    first = opened.read(0, LENGTH_BYTES)
    length = int.from_bytes(first, "little")
    if length > limits.header_bytes or LENGTH_BYTES + length > opened.size:
        for magic, what in _MAGICS:
            if first.startswith(magic):
                raise rejected("files.not-safetensors", f"{opened.name} holds {what} data, not safetensors", where=where)
    limits.enforce("header_bytes", length, what=f"{opened.name}: the header", where=where, rule="files.header-too-large")
    data_start = LENGTH_BYTES + length
    if data_start > opened.size:
        raise rejected(
            "files.header-truncated",
            f"{opened.name}: file shorter than header claims: {opened.size} of {data_start} bytes",
            where=where,
        )
    raw = opened.read(LENGTH_BYTES, length)
    opened.verify_unchanged()
    return parse_header(raw, opened.size, file=opened.name, limits=limits)


def parse_header(raw: bytes, file_size: int, *, file: str = "<header>", limits: Limits = DEFAULT_LIMITS) -> Header:
    """Parse and validate a header's JSON (without the length before it) of a file of ``file_size`` bytes. Raises InputRejected."""
    data_start = LENGTH_BYTES + len(raw)
    header = _parse_fast(raw, file_size, file, limits)
    if header is None:
        metadata, entries, leading = parse_strict(raw, file_size - data_start, file=file, limits=limits)
        header = Header(
            file,
            metadata,
            [e.name for e in entries],
            [e.dtype for e in entries],
            np.array([d for e in entries for d in e.shape], np.int64),
            np.array([len(e.shape) for e in entries], np.int64),
            np.array([e.begin for e in entries], np.int64),
            np.array([e.end for e in entries], np.int64),
            data_start,
            file_size,
            leading,
            _is_lowercase("".join(e.name for e in entries)),
            False,
        )
    limits.enforce("tensors", len(header), what=f"{file}: the header", where=Where(file=file))
    return header


def _parse_fast(raw: bytes, file_size: int, file: str, limits: Limits) -> Header | None:
    """The header if it is plain and valid; None if ``parse_strict`` must decide."""
    # "-0" is an integer to msgspec and none to the library.
    if b"\\" in raw or (b"-" in raw and b"-0" in raw) or not raw.startswith(b"{"):
        return None
    metadata: dict[str, str] = {}
    body: bytes | memoryview = raw
    match = _METADATA.match(raw)
    try:
        if match:
            text = match.group(1)
            metadata = _decode_metadata(text)
            if text.count(b'"') != 4 * len(metadata):
                return None
            # The brace that closes the metadata, or the comma after it, becomes the one that opens the rest.
            rest = bytearray(raw)
            rest[match.end() - 1] = 0x7B
            body = memoryview(rest)[match.end() - 1 :]
        found = _decode_entries(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    entries = found.values()
    if count_quotes(body) != 10 * len(found) or "__metadata__" in found or not _names_are_plain(raw, found, limits):
        return None
    count = len(found)
    shapes = list(map(_get_shape, entries))
    dtypes = list(map(_get_dtype, entries))
    ranks = np.fromiter(map(len, shapes), np.int64, count)
    try:
        dims = np.fromiter(chain.from_iterable(shapes), np.int64, int(ranks.sum()))
        offsets = np.fromiter(chain.from_iterable(map(_get_offsets, entries)), np.int64, 2 * count).reshape(-1, 2)
    except OverflowError:
        return None
    header = Header(
        file,
        metadata,
        list(found),
        dtypes,
        dims,
        ranks,
        np.ascontiguousarray(offsets[:, 0]),
        np.ascontiguousarray(offsets[:, 1]),
        LENGTH_BYTES + len(raw),
        file_size,
        False,
        _is_lowercase("".join(found)),
        True,
    )
    bits = np.fromiter(map(DTYPE_BITS.__getitem__, dtypes), np.int64, count)
    return header if _is_sound(header, bits, limits) else None


def _is_lowercase(text: str) -> bool:
    return text.isascii() and text == text.lower()


def _names_are_plain(raw: bytes, names: Mapping[str, object], limits: Limits) -> bool:
    if not names:
        return True
    if max(map(len, names)) > limits.name_length or "" in names:
        return False
    if raw.isascii():
        # Below 0x20 JSON forbids them unescaped, and there is no escape: DEL is the only one left.
        return b"\x7f" not in raw
    return not any(map(unsafe, names))


def _is_sound(header: Header, bits: Int64s, limits: Limits) -> bool:
    """Sizes, dimensions and a layout without overlap, hole, missing or trailing bytes."""
    payload = header.file_size - header.data_start
    if not len(header):
        return payload == 0
    dims, ranks, begins, ends = header.dims, header.ranks, header.begins, header.ends
    rank = int(ranks.max())
    # Empty tensors (whose other dimensions may overflow) are for the strict reader.
    if rank > limits.dims or (len(dims) and int(dims.min()) <= 0):
        return False
    if int(begins.min()) < 0 or int(ends.max()) > payload:  # before anything is multiplied, which would wrap silently
        return False
    elements = np.ones(len(header), np.int64)
    if len(dims):
        dense = ranks > 0  # the others are scalars
        starts = np.cumsum(ranks) - ranks if dense.all() else (np.cumsum(ranks) - ranks)[dense]
        # An element has at least 4 bits. The product in floating point bounds the one in integers, which would wrap silently; where even
        # the largest dimension to the power of the largest rank fits, no product wraps.
        wide = int(dims.max()) ** rank >= 2**56
        if wide and float(np.multiply.reduceat(dims.astype(np.float64), starts).max()) > 2.0 * payload:
            return False
        elements[dense] = np.multiply.reduceat(dims, starts)
    if not np.array_equal(elements * bits, 8 * (ends - begins)):
        return False
    if not np.array_equal(begins[1:], ends[:-1]):
        order = np.lexsort((ends, begins))
        begins, ends = begins[order], ends[order]
    return int(begins[0]) == 0 and int(ends[-1]) == payload and bool(np.array_equal(begins[1:], ends[:-1]))
