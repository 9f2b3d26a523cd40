"""Marks and look-ups of a parsed contract; the fast and the pure parser agree."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected
from contract.source import Mark, ScalarNode, parse_yaml
from contract.source import builder as builder_module
from contract.source.nodes import to_plain

TEXT = """\
wiring:
  rope: {theta: 1e4, type: default}
  norms_before_fc:
    - input_norm
tensors:
  fc.weight: {shape: [7168, 21504]}
  fc: {weight: other}
"""


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        ("wiring.rope.theta", (2, 10)),
        ("wiring.norms_before_fc", (3, 3)),
        ("wiring.norms_before_fc[0]", (4, 7)),
        ("tensors.fc.weight.shape[1]", (6, 29)),
        ("tensors.fc.weight", (7, 8)),
        (("tensors", "fc.weight"), (6, 3)),
        (("tensors", "fc.weight", "shape", 9), (6, 15)),
        ("wiring.rope.scaling.factor", (2, 3)),
        ("absent", (1, 1)),
        ((), (1, 1)),
    ],
)
def test_mark_of(path: str | tuple[str | int, ...], mark: tuple[int, int]) -> None:
    assert parse_yaml(TEXT).mark_of(path) == Mark(*mark)


def test_node_at() -> None:
    document = parse_yaml(TEXT)
    node = document.node_at("tensors.fc.weight.shape[0]")
    assert isinstance(node, ScalarNode)
    assert (node.value, node.raw, node.plain, node.mark) == (7168, "7168", True, Mark(6, 23))
    assert document.node_at("tensors.fc.bias") is None
    assert document.node_at(("wiring", "rope", 0)) is None


def test_where_names_file_place_and_key() -> None:
    where = parse_yaml(TEXT, file="c.yaml").where(("tensors", "fc.weight", "shape", 1))
    assert str(where) == "c.yaml:6:29 key tensors.fc.weight.shape[1]"


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # The characters that this loader and the emitter of PyYAML both take.
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Cn"]), max_size=12),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(st.sampled_from("abc_."), min_size=1, max_size=4), children, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_LIKE)
def test_what_a_plain_emitter_writes_is_read_back(value: object) -> None:
    # JSON is YAML: the emitter quotes every string, so that nothing depends on YAML 1.1 rules.

    assert to_plain(parse_yaml("{v: " + json.dumps(value, ensure_ascii=False) + "}").root) == {"v": value}


@given(st.text(st.sampled_from("ab:- \n[]{}#,'\"&*!|>%@`?~01.e\\"), max_size=40))
def test_both_parsers_agree_or_reject(text: str) -> None:
    outcomes = []
    for loader in (yaml.CBaseLoader, yaml.BaseLoader):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builder_module, "_LOADER", loader)
            try:
                outcomes.append(to_plain(parse_yaml(text).root))
            except InputRejected:
                outcomes.append("rejected")
    fast, pure = outcomes
    # Where the two disagree on what is well-formed, at least nothing but an InputRejected came out.
    assert fast == pure or "rejected" in outcomes
