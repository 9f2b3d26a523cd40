"""The data set beside speculators' states: what is in its arrow streams, and every way in which they can be wrong."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from contract.errors import InputRejected, UserError
from eagle3_contract.trainers.sample_formats.arrow_rows import ArrowRows
from eagle3_contract.trainers.samples import load_sample
from tests.trainers.views import DATA

SAMPLES = DATA / "samples"
Record = dict[str, Any]


def test_states_without_their_data_set_say_that_the_mask_is_missing(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors", tmp_path)
    sample = load_sample(tmp_path / "hs_0.safetensors", allow_pickle=False)
    assert sample.loss_mask_T is None
    assert "data set" in sample.notes[0]


def test_states_of_another_conversation_than_the_data_sets_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(SAMPLES / "speculators-0.9.0", folder)
    tensors = load_file(folder / "hidden_states/hs_0.safetensors")
    tensors["token_ids"][3] += 1
    save_file(tensors, folder / "hidden_states/hs_0.safetensors")
    with pytest.raises(UserError) as refused:
        load_sample(folder / "hidden_states/hs_0.safetensors", allow_pickle=False)
    assert refused.value.rule == "samples.tokens-disagree"
    shutil.copy(folder / "hidden_states/hs_2.safetensors", folder / "hidden_states/hs_7.safetensors")
    with pytest.raises(UserError, match="row 7 was asked for"):
        load_sample(folder / "hidden_states/hs_7.safetensors", allow_pickle=False)


# ---- the data set's arrow files


def _stream() -> bytes:
    return (SAMPLES / "speculators-0.9.0/data-00000-of-00001.arrow").read_bytes()


def test_rows_of_the_data_set_are_those_of_the_dump() -> None:
    rows = ArrowRows(SAMPLES / "speculators-0.9.0")
    assert len(rows) == 3
    for index in range(3):
        tensors = load_file(SAMPLES / f"speculators-0.9.0/hidden_states/hs_{index}.safetensors")
        row = rows.row(index)
        assert row["input_ids"] == tensors["token_ids"].tolist()
        assert len(row["loss_mask"]) == len(row["input_ids"])
        assert set(row["loss_mask"]) == {0, 1}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, len(_stream()) - 1), st.integers(0, 255))
def test_a_changed_byte_never_gives_more_than_a_refusal(tmp_path: Path, at: int, value: int) -> None:
    data = bytearray(_stream())
    data[at] = value
    (tmp_path / "data.arrow").write_bytes(data)
    outcome = _rows_or_rule(tmp_path)
    assert isinstance(outcome, int) or outcome == "samples.data-set" or outcome.startswith("files.")


def _rows_or_rule(folder: Path) -> int | str:
    """How many rows could be read, or the rule that refused them."""
    try:
        rows = ArrowRows(folder)
        return len([rows.row(index) for index in range(min(len(rows), 3))])
    except UserError as error:
        return error.rule


@pytest.mark.parametrize("keep", [0, 7, 8, 100, 640, 1000, 1700])
def test_a_truncated_data_set_has_fewer_rows_or_is_refused(tmp_path: Path, keep: int) -> None:
    (tmp_path / "data.arrow").write_bytes(_stream()[:keep])
    assert _rows_or_rule(tmp_path) in (0, "samples.data-set")


def test_what_is_no_arrow_stream_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.arrow").write_bytes(b"ARROW1\x00\x00" + b"\x00" * 64)
    with pytest.raises(UserError, match="no Arrow stream"):
        ArrowRows(tmp_path)
    (tmp_path / "data.arrow").write_bytes(struct.pack("<Ii", 0xFFFFFFFF, 1 << 30) + b"\x00" * 64)
    with pytest.raises(UserError, match="no Arrow stream"):
        ArrowRows(tmp_path)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../data.arrow"}]}))
    with pytest.raises(UserError, match="lists no data files"):
        ArrowRows(tmp_path)


def _nested(count: int) -> bytes:
    """A schema of four columns, each a struct whose ``count`` children are one and the same table, and so on, eight levels deep."""
    data = bytearray(4)

    def table(slots: list[int], fields: bytes) -> int:
        """Where the table is; its vtable lies before it."""
        vtable = len(data)
        data.extend(struct.pack("<HH", 4 + 2 * len(slots), 4 + len(fields)) + struct.pack(f"<{len(slots)}H", *slots))
        data.extend(bytes(-len(data) % 4))
        data.extend(struct.pack("<i", len(data) - vtable) + fields)
        return len(data) - 4 - len(fields)

    def vector(items: int) -> list[int]:
        data.extend(struct.pack("<I", items) + bytes(4 * items))
        return list(range(len(data) - 4 * items, len(data), 4))

    def lead(places: list[int], to: int) -> None:
        for place in places:
            struct.pack_into("<I", data, place, to - place)

    message = table([0, 4, 8, 0], struct.pack("<B3xI", 1, 0))
    lead([0], message)
    lead([message + 8], table([0, 4], struct.pack("<I", 4)))
    places = vector(4)
    for _ in range(8):
        lead(places, table([0, 0, 4, 0, 0, 8], struct.pack("<B3xI", 13, 4)))
        places = vector(count)
    lead(places, table([0, 0, 4], struct.pack("<B3x", 2)))
    data.extend(bytes(-len(data) % 8))
    return struct.pack("<Ii", 0xFFFFFFFF, len(data)) + bytes(data) + struct.pack("<Ii", 0xFFFFFFFF, 0)


def test_columns_that_share_their_children_are_counted_not_visited(tmp_path: Path) -> None:
    (tmp_path / "data.arrow").write_bytes(_nested(40))
    with pytest.raises(InputRejected, match="more than 4096 columns"):
        ArrowRows(tmp_path)
    (tmp_path / "data.arrow").write_bytes(_nested(1))
    with pytest.raises(InputRejected, match="has no column input_ids"):
        ArrowRows(tmp_path)


def test_a_second_schema_is_refused(tmp_path: Path) -> None:
    stream = _stream()
    (length,) = struct.unpack_from("<i", stream, 4)
    (tmp_path / "data.arrow").write_bytes(stream[: 8 + length] + stream)
    with pytest.raises(InputRejected, match="message of kind 1"):
        ArrowRows(tmp_path)
