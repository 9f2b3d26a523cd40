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

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

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

_Whole = Annotated[int, msgspec.Meta(ge=0)]


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    dtype: str
    shape: list[_Whole]
    data_offsets: tuple[_Whole, _Whole]


_decode_entries = msgspec.json.Decoder(dict[str, _Entry]).decode
_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode
_get_shape, _get_offsets, _get_dtype = attrgetter("shape"), attrgetter("data_offsets"), attrgetter("dtype")


class _Bits(dict[str, int]):
    """Bits per element; 0 for a dtype that the format does not define."""

    def __missing__(self, dtype: str) -> int:
        return 0


_BITS = _Bits(DTYPE_BITS)


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """A valid header, kept as columns in the order of the file.

    Attributes:
        file: name of the file, for messages.
        metadata: the ``__metadata__`` map.
        names, dtypes, shapes: one item per tensor. Treat as read-only.
        begins, ends: byte range of each tensor, counted from ``data_start``.
        data_start: where the tensor data begin in the file.
        file_size: bytes of the file.
        leading_space: white space precedes the object.
    """

    file: str
    metadata: Mapping[str, str]
    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[Sequence[int]]
    begins: Int64s
    ends: Int64s
    data_start: int
    file_size: int
    leading_space: bool

    def __len__(self) -> int:
        return len(self.names)

    def entry(self, row: int) -> TensorEntry:
        """The tensor of one row."""
        return TensorEntry(self.names[row], self.dtypes[row], tuple(self.shapes[row]), int(self.begins[row]), int(self.ends[row]))

    @property
    def entries(self) -> Iterator[TensorEntry]:
        """Every tensor, in the order of the file."""
        return map(self.entry, range(len(self.names)))

    def problems(self) -> list[Problem]:
        """What is valid but wrong: no tensors, an unknown dtype, white space before the object."""
        found: list[Problem] = []
        where = Where(file=self.file)
        if not self.names:
            found.append(problem("files.no-tensors", f"{self.file} holds no tensors", where=where))
        if self.leading_space:
            found.append(problem("files.header-leading-space", f"{self.file}: white space before the header", where=where))
        unknown = set(self.dtypes) - DTYPE_BITS.keys()
        if unknown:
            found.extend(
                problem(
                    "files.unsupported-dtype",
                    f"{self.file}: tensor {name} has the unsupported dtype {dtype!r:.40}",
                    where=Where(file=self.file, tensor=name),
                    expected=list(DTYPE_BITS),
                    actual=dtype[:40],
                )
                for name, dtype in zip(self.names, self.dtypes, strict=True)
                if dtype in unknown
            )
        return found


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
            [e.shape for e in entries],
            np.array([e.begin for e in entries], np.int64),
            np.array([e.end for e in entries], np.int64),
            data_start,
            file_size,
            leading,
        )
    limits.enforce("tensors", len(header), what=f"{file}: the header", where=Where(file=file))
    return header


def _parse_fast(raw: bytes, file_size: int, file: str, limits: Limits) -> Header | None:
    """The header if it is plain and valid; None if ``parse_strict`` must decide."""
    # "-0" is an integer to msgspec and none to the library.
    if b"\\" in raw or b"-0" in raw or not raw.startswith(b"{"):
        return None
    metadata: dict[str, str] = {}
    body: bytes = raw
    match = _METADATA.match(raw)
    try:
        if match:
            text = match.group(1)
            metadata = _decode_metadata(text)
            if text.count(b'"') != 4 * len(metadata):
                return None
            body = b"{" + raw[match.end() :]
        found = _decode_entries(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    entries = found.values()
    if body.count(b'"') != 10 * len(found) or "__metadata__" in found or not _names_are_plain(raw, found, limits):
        return None
    try:
        shapes = list(map(_get_shape, entries))
        offsets = np.fromiter(chain.from_iterable(map(_get_offsets, entries)), np.int64, 2 * len(found)).reshape(-1, 2)
        elements = np.fromiter(map(math.prod, shapes), np.int64, len(found))
    except OverflowError:
        return None
    dtypes = list(map(_get_dtype, entries))
    bits = np.fromiter(map(_BITS.__getitem__, dtypes), np.int64, len(found))
    header = Header(
        file,
        metadata,
        list(found),
        dtypes,
        shapes,
        np.ascontiguousarray(offsets[:, 0]),
        np.ascontiguousarray(offsets[:, 1]),
        LENGTH_BYTES + len(raw),
        file_size,
        False,
    )
    return header if _is_sound(header, elements, bits, limits) else None


def _names_are_plain(raw: bytes, names: Mapping[str, object], limits: Limits) -> bool:
    if not names:
        return True
    if max(map(len, names)) > limits.name_length or "" in names:
        return False
    if raw.isascii():
        # Below 0x20 JSON forbids them unescaped, and there is no escape: DEL is the only one left.
        return b"\x7f" not in raw
    return not any(map(unsafe, names))


def _is_sound(header: Header, elements: Int64s, bits: Int64s, limits: Limits) -> bool:
    """Sizes, dimensions and a layout without overlap, hole, missing or trailing bytes."""
    payload = header.file_size - header.data_start
    if not len(header):
        return payload == 0
    begins, ends = header.begins, header.ends
    # An element has at least 4 bits, so this bounds the product below before it is taken. Unknown dtypes and empty
    # tensors (whose other dimensions may overflow) are for the strict reader.
    if int(elements.max()) > 2 * payload or int(elements.min()) == 0 or int(bits.min()) == 0:
        return False
    if max(map(len, header.shapes)) > limits.dims or int(ends.max()) > payload:
        return False
    if not np.array_equal(elements * bits, 8 * (ends - begins)):
        return False
    if not np.array_equal(begins[1:], ends[:-1]):
        order = np.lexsort((ends, begins))
        begins, ends = begins[order], ends[order]
    return int(begins[0]) == 0 and int(ends[-1]) == payload and bool(np.array_equal(begins[1:], ends[:-1]))
