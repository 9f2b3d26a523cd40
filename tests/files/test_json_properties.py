"""Strict JSON against the standard library with a duplicate hook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected
from contract.files.counting import count_quotes
from contract.jsonio import count_strings, load_json, load_json_file

trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = ["a", "b", "\\u0061", '\\"', "\\\\", ":", "{"]


@given(trees, st.booleans(), st.sampled_from([None, 2]))
def test_what_was_written_is_read(tree: Any, ascii_only: bool, indent: int | None) -> None:
    assert load_json(json.dumps(tree, ensure_ascii=ascii_only, indent=indent).encode()) == tree


SCALARS = st.sampled_from(['"x"', "1", '"a\\"b"', '"}"', "[]"])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=3)
    return pairs.map(lambda found: "{" + ",".join(f'"{key}":{value}' for key, value in found) + "}")


def nested(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    inner = objects(values)
    return objects(values | inner | inner.map("[{}]".format))


@given(nested(objects(SCALARS) | SCALARS))
def test_duplicates_are_found_at_every_level_and_only_there(text: str) -> None:
    twice = False

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        twice = twice or len({key for key, _ in pairs}) != len(pairs)
        return dict(pairs)

    tree = json.loads(text, object_pairs_hook=hook)
    try:
        assert load_json(text.encode()) == tree
        refused = None
    except InputRejected as error:
        refused = error.rule
    assert refused == ("files.json-duplicate-key" if twice else None)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ 01ea.-nul', max_size=40).map(str.encode))
def test_arbitrary_bytes_are_refused_or_read_as_the_standard_library_reads_them(data: bytes) -> None:
    try:
        tree = load_json(data)
    except InputRejected:
        return
    assert json.loads(data) == tree


def test_counting() -> None:
    assert count_quotes(b'"' * 300_000 + b"x") == 300_000
    assert count_strings({"a": ["b", 1, {"c": None}], "d": "e"}) == 5


def test_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"layers": 1}')
    assert load_json_file(tmp_path / "config.json") == {"layers": 1}
