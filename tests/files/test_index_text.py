"""An index recognised by its text says what a decoder reads from it; whatever is tampered with is left to the decoder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.checkpoint_index import _decode_fast
from contract.files.index_text import recognise
from contract.files.paths import Identity, open_path
from contract.files.safetensors_header import parse_header
from contract.files.tensors import Shard
from contract.jsonio import load_json

Parts = Mapping[str, Sequence[str]]
NAMES = st.sampled_from(["a", "a.b", "a b", "a!", "b", "é", "l.10.w", "l.2.w", "l.2.w_scale", 'q"', "back\\slash", '": "f', "weight_map"])
FILES = st.sampled_from(["m-1.safetensors", "m-2.safetensors", 'odd".safetensors', "weight_map.safetensors"])


def shard(file: str, names: Sequence[str]) -> Shard:
    entries = {name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, name in enumerate(names)}
    raw = json.dumps(entries, ensure_ascii=False).encode()
    header = parse_header(raw, 8 + len(raw) + len(names), file=file)
    return Shard(file, header, Identity(0, 0, header.file_size, 0), partial(open_path, "/dev/null"))


def index(parts: Parts, *, by_name: bool, metadata: Any = None) -> str:
    weight_map = {name: file for file, names in parts.items() for name in names}
    whole: dict[str, Any] = {} if metadata is None else {"metadata": metadata}
    return json.dumps(whole | {"weight_map": weight_map}, indent=2, sort_keys=by_name) + "\n"


def recognised(text: str | bytes, parts: Parts) -> Mapping[str, str] | None:
    data = text.encode() if isinstance(text, str) else text
    found = recognise(data, [shard(file, names) for file, names in parts.items()], lambda rest: _decode_fast(rest, ()))
    return None if found is None else dict(found[0])


PLAIN: Parts = {"m-1.safetensors": ["l.2.w", "l.10.w"], "m-2.safetensors": ["l.2.w_scale", "a"], "none.safetensors": []}
METADATA = {"total_size": 4, "note": 'x", {'}


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("metadata", [None, {"total_size": 4}, {}])
def test_what_writers_write_is_recognised(by_name: bool, metadata: Any) -> None:
    text = index(PLAIN, by_name=by_name, metadata=metadata)
    assert recognised(text, PLAIN) == {
        "l.2.w": "m-1.safetensors",
        "l.10.w": "m-1.safetensors",
        "l.2.w_scale": "m-2.safetensors",
        "a": "m-2.safetensors",
    }


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("a tensor in another shard", '"l.2.w": "m-1', '"l.2.w": "m-2'),
        ("another name", '"l.2.w":', '"l.3.w":'),
        ("an entry more", '"weight_map": {', '"weight_map": {\n    "more": "m-1.safetensors",'),
        ("an entry twice", '    "l.2.w": "m-1.safetensors",\n', '    "l.2.w": "m-1.safetensors",\n' * 2),
        ("a second weight_map", '{\n  "weight_map"', '{\n  "weight_map": {},\n  "weight_map"'),
        ("the weight_map inside the metadata", '{\n  "weight_map"', '{"metadata": {\n  "weight_map"'),
        ("no end", "\n  }\n}\n", "\n  \n}\n"),
        ("text behind the end", "\n  }\n}\n", "\n  }\n}\n{}"),
    ],
)
def test_what_is_tampered_with_is_left_to_the_decoder(what: str, old: str, new: str) -> None:
    text = index(PLAIN, by_name=False)
    assert old in text
    assert recognised(text, PLAIN) is not None
    assert recognised(text.replace(old, new, 1), PLAIN) is None, what


def test_a_name_in_two_shards_is_left_to_the_decoder() -> None:
    parts = {"m-1.safetensors": ["a"], "m-2.safetensors": ["a"]}
    text = '{\n  "weight_map": {\n    "a": "m-1.safetensors",\n    "a": "m-2.safetensors"\n  }\n}\n'
    assert recognised(text, parts) is None
    assert recognised(text.replace('"a": "m-2', '"b": "m-2'), {"m-1.safetensors": ["a"], "m-2.safetensors": ["b"]}) is not None


@given(st.dictionaries(FILES, st.lists(NAMES, unique=True, max_size=5), min_size=1, max_size=3), st.booleans(), st.data())
@example({"m-1.safetensors": ['": "f'], "m-2.safetensors": ["a"]}, True, None)
def test_recognised_means_decoded_to_the_same(parts: Parts, by_name: bool, draw: st.DataObject | None) -> None:
    text = index(parts, by_name=by_name, metadata={"total_size": 1}).encode()
    if draw is not None and draw.draw(st.booleans()):
        at = draw.draw(st.integers(0, len(text) - 1))
        text = (
            text[:at]
            + draw.draw(st.sampled_from([b"", b'"', b",", b"}", b"{", b"\\", b"\n", b"x", b"\x00"]))
            + text[at + draw.draw(st.integers(0, 2)) :]
        )
    found = recognised(text, parts)
    if found is not None:
        assert dict(load_json(text)["weight_map"]) == found


def test_the_checkpoint_is_the_same_either_way(tmp_path: Path) -> None:
    for file, names in PLAIN.items():
        entries = {name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, name in enumerate(names)}
        raw = json.dumps(entries).encode()
        (tmp_path / file).write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(len(names)))
    place = tmp_path / "model.safetensors.index.json"
    seen = []
    for text in (index(PLAIN, by_name=True), json.dumps(json.loads(index(PLAIN, by_name=True)))):
        place.write_text(text)
        opened = Checkpoint.open(tmp_path)
        assert opened.index is not None
        seen.append((dict(opened.index.weight_map), opened.index.shards, sorted(opened.tensors), [p.message for p in opened.problems]))
        assert opened.tensors["a"].file == "m-2.safetensors"
        assert "absent" not in opened.tensors
        assert opened.index.recognised is (text.count("\n") > 1)
    assert seen[0] == seen[1]
    assert ["no tensors" in m or "not in the index" in m for m in seen[0][3]] == [True, True]
    (tmp_path / "m-1.safetensors").unlink()
    with pytest.raises(InputRejected, match="m-1"):
        Checkpoint.open(tmp_path)
