"""The fast header reader against a plain reference, the strict reader and the safetensors library."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from contract.errors import InputRejected
from contract.files.dtypes import DTYPE_BITS
from contract.files.header_strict import TensorEntry, parse_strict
from contract.files.safetensors_header import Header, _parse_fast, parse_header, read_header
from contract.limits import DEFAULT_LIMITS

NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029"), min_size=1, max_size=12)
shapes = st.lists(st.integers(0, 4), max_size=3)


@contextmanager
def stored(data: bytes) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        yield Path(file.name)


def library_view(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    with safe_open(path, framework="np") as theirs:
        parts = {name: theirs.get_slice(name) for name in theirs.keys()}  # noqa: SIM118 - no mapping, only keys()
        return {name: (str(part.get_dtype()), tuple(part.get_shape())) for name, part in parts.items()}


def own_view(header: Header) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {e.name: (e.dtype, e.shape) for e in header.entries}


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file as the library writes it."""
    tensors = draw(
        st.dictionaries(
            names.filter(lambda n: n != "__metadata__"), st.tuples(st.sampled_from(sorted(NUMPY)), shapes), min_size=1, max_size=6
        )
    )
    metadata = draw(
        st.none()
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            max_size=3,
        )
    )
    return bytes(save({name: np.zeros(shape, NUMPY[dtype]) for name, (dtype, shape) in tensors.items()}, metadata))


@given(files())
def test_whatever_the_library_writes_is_accepted_with_the_same_view(data: bytes) -> None:
    with stored(data) as path:
        assert own_view(read_header(path)) == library_view(path)


@given(files(), st.data())
def test_one_changed_header_byte_is_refused_or_read_as_the_library_reads_it(data: bytes, draw: st.DataObject) -> None:
    header_bytes = 8 + int.from_bytes(data[:8], "little")
    at = draw.draw(st.integers(0, header_bytes - 1))
    value = draw.draw(st.integers(0, 255) | st.sampled_from(list(b'"{}[]:,\\ 0129-.eEnNaA')))
    changed = data[:at] + bytes([value]) + data[at + 1 :]
    with stored(changed) as path:
        try:
            header = read_header(path)
        except InputRejected:
            return
        if set(header.dtypes) <= DTYPE_BITS.keys():
            assert own_view(header) == library_view(path)
        else:
            with pytest.raises(SafetensorError):
                library_view(path)


def reference(raw: bytes, payload: int) -> dict[str, Any] | None:
    """An independent plain reading of what a header may be; None if it may not."""

    class Bad(Exception):
        pass

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise Bad
        return found

    def bad(_: str) -> None:
        raise Bad

    def whole(text: str) -> int:
        if text.startswith("-"):
            raise Bad
        return int(text)

    try:
        tree = json.loads(raw.decode(), object_pairs_hook=pairs, parse_float=bad, parse_constant=bad, parse_int=whole)
        if not isinstance(tree, dict):
            return None
        metadata = tree.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            return None
        at = 0
        for name, item in sorted(tree.items(), key=lambda pair: pair[1]["data_offsets"]):
            if not isinstance(item, dict) or sorted(item) != ["data_offsets", "dtype", "shape"]:
                return None
            (begin, end), count = item["data_offsets"], 1
            if any(type(n) is not int for n in (begin, end, *item["shape"])) or type(item["shape"]) is not list:
                return None
            for dim in item["shape"]:
                count *= dim
            bits = DTYPE_BITS.get(item["dtype"])
            if begin != at or end < begin or (bits is not None and count * bits != 8 * (end - begin)) or not name:
                return None
            at = end
        return {"metadata": metadata, "tensors": tree} if at == payload else None
    except (Bad, ValueError, TypeError, KeyError):
        return None


PIECES = [
    '"a"', '"b"', '"\\u0061"', '"a\\"b"', '"__metadata__"', '"dtype"', '"shape"', '"data_offsets"', '"F32"', '"U8"', '"x:y"', '"{"',
    '"}"', '"\\\\"', "{", "}", "[", "]", ":", ",", " ", "0", "4", "8", "1", "-0", "1.0", "null",
    '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}', '{"dtype":"F32","shape":[1],"data_offsets":[4,8]}',
    '{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}', '{"dtype":"U8","shape":[4],"data_offsets":[0,4],"":"x"}',
    '{"format":"pt"}', '{"format":"pt","format":"pt"}', '{"\\"":"\\""}', '{"a":"}"}',
    '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
    '{"__metadata__":{"a":"b"},', '{"__metadata__":{"a":"b","a":"b"},', '"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}',
]  # fmt: skip


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Texts near a valid header: entries that repeat, escapes that hide quotation marks, metadata anywhere, pieces out of place."""
    good = '{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    entries = draw(st.lists(st.sampled_from(['"a"', '"b"', '"\\u0061"', '"a\\"b"', '"{}"', '"-0"', '"c:d"']), max_size=4))
    items = [f"{name}:{good % (4 * i, 4 * i + 4)}" for i, name in enumerate(entries)]
    for metadata in draw(st.lists(st.sampled_from(["{}", '{"a":"b"}', '{"a":"b","a":"c"}', '{"a":"\\"","b":"}"}', '{"a":1}']), max_size=2)):
        items.insert(draw(st.integers(0, len(items))), f'"__metadata__":{metadata}')
    text = "{" + draw(st.sampled_from([",", ", ", " ,\n"])).join(items) + "}" + draw(st.sampled_from(["", "  "]))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + draw(st.integers(0, 3)) :]
    return text.encode()


@settings(max_examples=600)
@given(headers(), st.sampled_from([0, 4, 8, 12, 16]))
@example(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4)
@example(b'{"__metadata__":{}}', 0)
@example(b'{"__metadata__":{},}', 0)
@example(b'{"__metadata__":{"a":"b"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', 4)
@example(b'{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}', 4)
def test_fast_strict_and_reference_readings_agree(raw: bytes, payload: int) -> None:
    size = 8 + len(raw) + payload
    expected = reference(raw, payload)
    try:
        metadata, entries, _ = parse_strict(raw, payload, file="x", limits=DEFAULT_LIMITS)
    except InputRejected:
        assert expected is None
        assert _parse_fast(raw, size, "x", DEFAULT_LIMITS) is None
        return
    assert expected is not None
    assert metadata == expected["metadata"]
    assert entries == [TensorEntry(n, t["dtype"], tuple(t["shape"]), *t["data_offsets"]) for n, t in expected["tensors"].items()]
    fast = _parse_fast(raw, size, "x", DEFAULT_LIMITS)
    if fast is not None:
        assert (fast.metadata, list(fast.entries)) == (metadata, entries)
        assert [fast.entry(fast.row(e.name)) for e in entries] == entries


@pytest.mark.parametrize("lead", ["", '"__metadata__":{"format":"pt"},', '"__metadata__": {"format": "pt"}, '])
def test_the_fast_reader_is_the_one_that_reads_plain_headers(lead: str) -> None:
    raw = (
        "{" + lead + '"s":{"dtype":"F32","shape":[],"data_offsets":[8,12]},"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    ).encode()
    fast = _parse_fast(raw, 8 + len(raw) + 12, "x", DEFAULT_LIMITS)
    assert fast is not None
    assert [fast.entry(0), fast.entry(1)] == [TensorEntry("s", "F32", (), 8, 12), TensorEntry("v", "F32", (2,), 0, 8)]
    assert (fast.row("v"), fast.lowercase, len(fast)) == (1, True, 2)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_cleanly(data: bytes) -> None:
    try:
        header = parse_header(data, 8 + len(data))
    except InputRejected:
        return
    assert reference(data, 0) is not None
    assert len(header) == len(header.names)
