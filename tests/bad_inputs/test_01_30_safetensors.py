"""Hostile and broken safetensors containers, numbered; each has one outcome."""

from __future__ import annotations

import json
import struct
import unicodedata
from pathlib import Path

import pytest

from contract.errors import LimitExceeded
from contract.files.checkpoint import Checkpoint
from contract.limits import DEFAULT_LIMITS

from .builders import F32_2, accepts, container, entry, finds, put, rejects


def test_00_the_clean_twin_is_accepted(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt"}, "a": F32_2, "b": entry("BF16", [2, 3], 8, 20)}
    tensors = accepts(put(tmp_path, container(header, bytes(20)))).tensors
    assert {n: (r.dtype, r.shape, r.nbytes) for n, r in tensors.items()} == {"a": ("F32", (2,), 8), "b": ("BF16", (2, 3), 12)}


def test_01_empty_file(tmp_path: Path) -> None:
    rejects(put(tmp_path, b""), "files.header-too-small")


def test_02_three_bytes(tmp_path: Path) -> None:
    rejects(put(tmp_path, b"\x01\x02\x03"), "files.header-too-small")


@pytest.mark.parametrize("length", [2**63, 2**64 - 1])
def test_03_length_near_the_end_of_the_integers(tmp_path: Path, length: int) -> None:
    folder = put(tmp_path, struct.pack("<Q", length) + b"{}")
    rejects(folder, "files.header-too-large")
    with pytest.raises(LimitExceeded) as caught:
        Checkpoint.open(folder)
    assert (caught.value.limit, caught.value.allowed, caught.value.actual) == ("header_bytes", 100_000_000, length)


def test_04_length_above_100_megabytes(tmp_path: Path) -> None:
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", 100_000_001) + b"{}")
        file.truncate(200_000_000)
    rejects(tmp_path, "files.header-too-large")


def test_05_length_beyond_the_file(tmp_path: Path) -> None:
    rejects(put(tmp_path, struct.pack("<Q", 1000) + b"{}"), "files.header-truncated")


def test_06_interrupted_download(tmp_path: Path) -> None:
    whole = container({"a": F32_2}, bytes(8))
    message = rejects(put(tmp_path, whole[:40]), "files.header-truncated")
    assert f"file shorter than header claims: 40 of {len(whole) - 8} bytes" in message


def test_07_header_is_not_utf8(tmp_path: Path) -> None:
    rejects(put(tmp_path, container(b'{"a\xff":' + json.dumps(F32_2).encode() + b"}", bytes(8))), "files.header-not-utf8")


def test_08_byte_order_mark(tmp_path: Path) -> None:
    rejects(put(tmp_path, container(b"\xef\xbb\xbf" + json.dumps({"a": F32_2}).encode(), bytes(8))), "files.header-bom")


@pytest.mark.parametrize("header", ["[]", "null", "1", '"a"'])
def test_09_header_is_no_object(tmp_path: Path, header: str) -> None:
    rejects(put(tmp_path, container(header)), "files.header-syntax")


def test_10_header_without_tensors(tmp_path: Path) -> None:
    assert finds(put(tmp_path, container("{}")), "files.no-tensors") == ["model.safetensors holds no tensors"]


def test_11_leading_white_space(tmp_path: Path) -> None:
    folder = put(tmp_path, container("  \n" + json.dumps({"a": F32_2}), bytes(8)))
    finds(folder, "files.header-leading-space")
    assert list(Checkpoint.open(folder).tensors) == ["a"]


def test_12_padding_with_nul(tmp_path: Path) -> None:
    rejects(put(tmp_path, container(json.dumps({"a": F32_2}) + "\0\0", bytes(8))), "files.header-syntax")
    accepts(put(tmp_path, container(json.dumps({"a": F32_2}) + "  ", bytes(8))))


@pytest.mark.parametrize("garbage", ["x", "{}", ",", "]"])
def test_13_garbage_after_the_header(tmp_path: Path, garbage: str) -> None:
    rejects(put(tmp_path, container(json.dumps({"a": F32_2}) + garbage, bytes(8))), "files.header-syntax")


@pytest.mark.parametrize("name", ["a", "\\u0061", 'a\\"b'])
def test_14_tensor_named_twice(tmp_path: Path, name: str) -> None:
    other = json.dumps(entry("F32", [1, 2], 0, 8))
    first = "a" if name == "\\u0061" else name
    rejects(put(tmp_path, container(f'{{"{first}":{json.dumps(F32_2)},"{name}":{other}}}', bytes(8))), "files.duplicate-tensor")


@pytest.mark.parametrize("second", ["format", "\\u0066ormat"])
def test_15_metadata_key_twice(tmp_path: Path, second: str) -> None:
    header = f'{{"__metadata__":{{"format":"pt","{second}":"tf"}},"a":{json.dumps(F32_2)}}}'
    rejects(put(tmp_path, container(header, bytes(8))), "files.duplicate-metadata-key")
    twice = f'{{"__metadata__":{{"a":"b"}},"__metadata__":{{"c":"d"}},"a":{json.dumps(F32_2)}}}'
    rejects(put(tmp_path, container(twice, bytes(8))), "files.duplicate-metadata-key")


def test_16_unknown_field_of_an_entry(tmp_path: Path) -> None:
    rejects(put(tmp_path, container({"a": F32_2 | {"strides": [1]}}, bytes(8))), "files.unknown-entry-field")


def test_16_field_twice_or_missing(tmp_path: Path) -> None:
    twice = '{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    rejects(put(tmp_path, container(twice, bytes(8))), "files.duplicate-entry-field")
    rejects(put(tmp_path, container({"a": {"dtype": "F32", "shape": [2]}}, bytes(8))), "files.missing-entry-field")


@pytest.mark.parametrize("metadata", [{"n": 1}, {"n": None}, {"n": {"m": "x"}}, None, [], "x"])
def test_17_metadata_that_is_no_map_of_strings(tmp_path: Path, metadata: object) -> None:
    rejects(put(tmp_path, container({"__metadata__": metadata, "a": F32_2}, bytes(8))), "files.metadata-not-string")


@pytest.mark.parametrize("number", ["-1", "-0", "2.0", "2e0", "true", "null", '"2"', "9" * 400, str(2**63), "NaN", "[2]"])
@pytest.mark.parametrize("place", ["shape", "begin", "end"])
def test_18_numbers_that_are_no_sizes(tmp_path: Path, number: str, place: str) -> None:
    values = {"shape": "2", "begin": "0", "end": "8"} | {place: number}
    header = f'{{"a":{{"dtype":"F32","shape":[{values["shape"]}],"data_offsets":[{values["begin"]},{values["end"]}]}}}}'
    rejects(put(tmp_path, container(header, bytes(8))), "files.header-number")


def test_19_overlap(tmp_path: Path) -> None:
    header = {"a": F32_2, "b": entry("F32", [2], 4, 12)}
    assert "'b'" in rejects(put(tmp_path, container(header, bytes(12))), "files.overlap")
    rejects(put(tmp_path, container({"a": F32_2, "b": F32_2}, bytes(8))), "files.overlap")


def test_20_hole(tmp_path: Path) -> None:
    rejects(put(tmp_path, container({"a": F32_2, "b": entry("F32", [2], 12, 20)}, bytes(20))), "files.hole")
    rejects(put(tmp_path, container({"a": entry("F32", [2], 4, 12)}, bytes(12))), "files.hole")


def test_21_bytes_after_the_last_tensor(tmp_path: Path) -> None:
    rejects(put(tmp_path, container({"a": F32_2}, bytes(8) + b"PK\x05\x06" + bytes(18))), "files.trailing-bytes")
    rejects(put(tmp_path, container("{}", b"x")), "files.trailing-bytes")


def test_22_data_cut_off(tmp_path: Path) -> None:
    assert "7 of 8 bytes" in rejects(put(tmp_path, container({"a": F32_2}, bytes(7))), "files.data-truncated")


def test_23_shape_product_overflow(tmp_path: Path) -> None:
    rejects(put(tmp_path, container({"a": entry("F32", [2**32, 2**32], 0, 8)}, bytes(8))), "files.shape-overflow")
    # 2^62 * 4 * F32 wraps to 0 in 64 bits.
    rejects(put(tmp_path, container({"a": entry("F32", [2**62, 4], 0, 0), "b": F32_2}, bytes(8))), "files.shape-overflow")


def test_23_bytes_that_do_not_fit_the_shape(tmp_path: Path) -> None:
    rejects(put(tmp_path, container({"a": entry("F32", [3], 0, 8)}, bytes(8))), "files.size-mismatch")
    rejects(put(tmp_path, container({"a": entry("F4", [3], 0, 1)}, bytes(1))), "files.size-mismatch")


def test_24_overflow_hidden_behind_a_zero(tmp_path: Path) -> None:
    huge = {"a": entry("F32", [0, 2**62, 2**62], 0, 0)}
    rejects(put(tmp_path, container(huge)), "files.shape-overflow")
    beyond = {"a": entry("F32", [0, 2**63, 2**63], 0, 0)}
    rejects(put(tmp_path, container(beyond)), "files.header-number")
    accepts(put(tmp_path, container({"a": entry("F32", [0, 5], 0, 0)})))


def test_25_ten_thousand_dimensions(tmp_path: Path) -> None:
    rejects(put(tmp_path, container({"a": entry("F32", [1] * 9999 + [2], 0, 8)}, bytes(8))), "files.too-many-dims")


@pytest.mark.parametrize("dtype", ["F99", "bf16", "", "\x1b[31m"])
def test_26_unknown_dtype(tmp_path: Path, dtype: str) -> None:
    folder = put(tmp_path, container({"a": entry(dtype), "b": entry("F32", [2], 8, 16)}, bytes(16)))
    (message,) = finds(folder, "files.unsupported-dtype")
    assert "unsupported dtype" in message
    assert "\x1b" not in message
    assert Checkpoint.open(folder).tensors["a"].dtype == dtype


@pytest.mark.parametrize("name", ["", "a\0", "a\nb", "\x1b[31mred", "a\x7f", "a\u0085", "a\u2028b", "a\tb"])
def test_27_names_that_forge_output(tmp_path: Path, name: str) -> None:
    for text in (json.dumps({name: F32_2}), json.dumps({name: F32_2}, ensure_ascii=False)):
        message = rejects(put(tmp_path, container(text, bytes(8))), "files.tensor-name")
        assert message.isprintable()


def test_27_overlong_name(tmp_path: Path) -> None:
    message = rejects(put(tmp_path, container({"a" * 1_000_000: F32_2}, bytes(8))), "files.limit-exceeded")
    assert "name_length" in message
    assert len(message) < 500


def test_27_names_that_are_only_odd(tmp_path: Path) -> None:
    accepts(put(tmp_path, container({"::error::x": F32_2, "../../etc/passwd": entry("F32", [2], 8, 16)}, bytes(16))))


@pytest.mark.parametrize(
    ("first", "second"),
    [("fc.weight", "f\u0441.weight"), (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")), ("a", "a\u200b")],
)
def test_28_names_that_look_alike(tmp_path: Path, first: str, second: str) -> None:
    header = json.dumps({first: F32_2, second: entry("F32", [2], 8, 16)}, ensure_ascii=False)
    (message,) = finds(put(tmp_path, container(header, bytes(16))), "files.ambiguous-names")
    assert message.isascii()


@pytest.mark.parametrize("opening", ['{"__metadata__":{"a":', '{"a":', "["])
def test_29_nesting_100k_deep(tmp_path: Path, opening: str) -> None:
    depth = 100_000
    rejects(put(tmp_path, container(opening * depth if opening != "[" else "[" * depth)), "files.json-too-deep")


def test_30_a_million_tensors(tmp_path: Path) -> None:
    header = "{" + ",".join(f'"t{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(1_000_000)) + "}"
    assert len(header) < 99_000_000
    folder = put(tmp_path, container(header, bytes(1_000_000)))
    assert len(accepts(folder).tensors) == 1_000_000
    rejects(folder, "files.limit-exceeded", limits=DEFAULT_LIMITS.lowered(tensors=999_999))


@pytest.mark.parametrize("piece", ["[],", "{},"])
def test_30_brackets_beyond_any_number_of_tensors(tmp_path: Path, piece: str) -> None:
    rejects(
        put(tmp_path, container('{"a\\n":[' + piece * 20_000 + "1]}")),
        "files.limit-exceeded",
        limits=DEFAULT_LIMITS.lowered(tensors=1000),
    )
