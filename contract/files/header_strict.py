"""The plain, slow reading of a safetensors header, which names exactly what is wrong.

It defines what a valid header is. ``safetensors_header`` reads a header fast and comes here whenever anything is out of the
ordinary; tests compare the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from contract.errors import InputRejected
from contract.files.dtypes import DTYPE_BITS
from contract.files.names import shown, unsafe
from contract.files.rules import rejected
from contract.findings import Where
from contract.limits import Limits

MAX_INT: Final = 2**63 - 1
_BRACKETS_PER_TENSOR: Final = 3
_MORE_BRACKETS: Final = 10_000
_WHITESPACE = " \t\r\n"
_FIELDS = ("dtype", "shape", "data_offsets")
_MINUS_ZERO = re.compile(rb'"(?:[^"\\]|\\.)*"|(-0)', re.DOTALL)


class TensorEntry(NamedTuple):
    """One tensor of a header; ``begin`` and ``end`` count bytes from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its duplicates."""


Parsed: TypeAlias = tuple[Mapping[str, str], list[TensorEntry], bool]
"""Metadata, entries in the order of the file, and whether white space precedes the object."""


class _Header:
    def __init__(self, file: str, limits: Limits) -> None:
        self.file = file
        self.limits = limits

    def fail(self, rule: str, message: str, tensor: str | None = None) -> InputRejected:
        name = shown(tensor) if tensor is not None else None
        text = f"{self.file}: {f'tensor {name!r} ' if name is not None else ''}{message}"
        return rejected(f"files.{rule}", text, where=Where(file=self.file, tensor=name))

    def not_whole(self, text: str) -> NoReturn:
        raise self.fail("header-number", f"holds {shown(text, 24)}; shapes and offsets are whole numbers")

    def objects(self, raw: bytes) -> tuple[_Pairs, bool]:
        if raw.startswith(b"\xef\xbb\xbf"):
            raise self.fail("header-bom", "the header starts with a byte order mark")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise self.fail("header-not-utf8", f"the header is not UTF-8 at byte {error.start}") from None
        try:
            tree = json.loads(text, object_pairs_hook=_Pairs, parse_float=self.not_whole, parse_constant=self.not_whole)
        except json.JSONDecodeError as error:
            raise self.fail("header-syntax", f"the header is no JSON: {error.msg} at character {error.pos}") from None
        except RecursionError:
            raise self.fail("json-too-deep", f"the header nests deeper than the limit json_depth, {self.limits.json_depth}") from None
        except ValueError:
            raise self.fail("header-number", "holds a number of thousands of digits; shapes and offsets are whole numbers") from None
        if not isinstance(tree, _Pairs):
            raise self.fail("header-syntax", "the header is no JSON object")
        # The library refuses -0, which is decoded as 0. A hook for integers would see it, and take a minute for a hostile header.
        if b"-0" in raw and any(match.group(1) for match in _MINUS_ZERO.finditer(raw)):
            self.not_whole("-0")
        return tree, text[0] in _WHITESPACE

    def metadata(self, value: Any) -> dict[str, str]:
        if not isinstance(value, _Pairs):
            raise self.fail("metadata-not-string", "__metadata__ is no object")
        found: dict[str, str] = {}
        for key, item in value:
            if key in found:
                raise self.fail("duplicate-metadata-key", f"metadata key {shown(key)!r} appears twice")
            if not isinstance(item, str):
                raise self.fail("metadata-not-string", f"metadata {shown(key)!r} is no string")
            found[key] = item
        return found

    def entry(self, name: str, value: Any) -> TensorEntry:
        if (why := unsafe(name)) is not None:
            raise self.fail("tensor-name", f"the name {shown(name)!r} {why}")
        self.limits.enforce("name_length", len(name), what=f"{self.file}: a tensor name", where=Where(file=self.file))
        if not isinstance(value, _Pairs):
            raise self.fail("header-syntax", "is no object", name)
        fields: dict[str, Any] = {}
        for key, item in value:
            if key in fields:
                raise self.fail("duplicate-entry-field", f"has the field {shown(key)!r} twice", name)
            if key not in _FIELDS:
                raise self.fail("unknown-entry-field", f"has the unknown field {shown(key)!r}", name)
            fields[key] = item
        for key in _FIELDS:
            if key not in fields:
                raise self.fail("missing-entry-field", f"lacks the field {key}", name)
        shape, offsets = fields["shape"], fields["data_offsets"]
        if not isinstance(fields["dtype"], str):
            raise self.fail("header-syntax", "has a dtype that is no string", name)
        for field, value in (("shape", shape), ("data_offsets", offsets)):
            if type(value) is not list:
                raise self.fail("header-number", f"has a {field} that is no list of whole numbers", name)
        self.limits.enforce(
            "dims", len(shape), what=f"{self.file}: tensor {shown(name)!r}", where=Where(file=self.file), rule="files.too-many-dims"
        )
        if len(offsets) != 2:
            raise self.fail("header-number", f"has {len(offsets)} data_offsets, not two", name)
        for number in (*shape, *offsets):
            if type(number) is not int or not 0 <= number <= MAX_INT:
                raise self.fail(
                    "header-number",
                    f"holds {_brief(number)}; sizes are whole numbers from 0 to 2^63-1",
                    name,
                )
        if offsets[0] > offsets[1]:
            raise self.fail("header-number", f"has data_offsets {offsets}, no pair begin <= end", name)
        return TensorEntry(name, fields["dtype"], tuple(shape), offsets[0], offsets[1])

    def size(self, entry: TensorEntry) -> None:
        shape = list(entry.shape)
        if math.prod(d for d in shape if d) > MAX_INT:
            raise self.fail("shape-overflow", f"has shape {shape}, whose product is above 2^63-1", entry.name)
        bits, have = DTYPE_BITS.get(entry.dtype), entry.end - entry.begin
        if bits is not None and (need := math.prod(shape) * bits) != 8 * have:
            raise self.fail("size-mismatch", f"has {have} bytes; dtype {entry.dtype} and shape {shape} need {need / 8:g}", entry.name)

    def layout(self, entries: list[TensorEntry], payload: int) -> None:
        at = 0
        for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
            if entry.begin < at:
                raise self.fail("overlap", f"begins at byte {entry.begin}, inside the tensor that ends at {at}", entry.name)
            if entry.begin > at:
                raise self.fail("hole", f"begins at byte {entry.begin}; bytes from {at} on belong to no tensor", entry.name)
            at = entry.end
        if at > payload:
            raise self.fail("data-truncated", f"the file holds {payload} of {at} bytes of tensor data")
        if at < payload:
            raise self.fail("trailing-bytes", f"{payload - at} bytes follow the last tensor")


def _brief(value: object) -> str:
    return shown(str(value), 24) if type(value) is int else type(value).__name__


def parse_strict(raw: bytes, payload: int, *, file: str, limits: Limits) -> Parsed:
    """Read and validate a whole header.

    Args:
        raw: the header's JSON, without the length before it.
        payload: bytes of the file after the header.

    Raises:
        InputRejected: with the rule that is broken.
    """
    header = _Header(file, limits)
    # A tensor takes three brackets; so much is decoded before anything is known to be a tensor.
    brackets = raw.count(b"{") + raw.count(b"[")
    if brackets > _BRACKETS_PER_TENSOR * limits.tensors + _MORE_BRACKETS:
        limits.enforce("tensors", brackets // 3, what=f"{file}: the header", where=Where(file=file))
    tree, leading = header.objects(raw)
    metadata: dict[str, str] | None = None
    entries: dict[str, TensorEntry] = {}
    for name, value in tree:
        if name == "__metadata__":
            if metadata is not None:
                raise header.fail("duplicate-metadata-key", "__metadata__ appears twice")
            metadata = header.metadata(value)
        elif name in entries:
            raise header.fail("duplicate-tensor", "is named twice", name)
        else:
            entries[name] = header.entry(name, value)
    found = list(entries.values())
    for entry in found:
        header.size(entry)
    header.layout(found, payload)
    return metadata or {}, found, leading
