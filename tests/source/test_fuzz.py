"""Whatever bytes come, the loader makes a tree or says InputRejected with a place; nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import InputRejected
from contract.source import parse_yaml
from contract.source.header import read_header
from contract.source.nodes import MappingNode, Node, SequenceNode
from contract.source.rules import SOURCE_RULES

RULES = {rule.id for rule in SOURCE_RULES}
SEED = b"schema_version: 1\nkind: eagle3\nw: {a: [1, 1e-3, 'x'], \"b\": true}\nt:\n  - x: |\n      text\n  - ? k\n    : v\n# end\n"
TOKENS = [
    b"&a ",
    b"*a",
    b"!!x ",
    b"<<: ",
    b"---\n",
    b"\t",
    b"\n",
    b"{",
    b"]",
    b"? ",
    b": ",
    b"- ",
    b"|",
    b"'",
    b'"',
    b"\\x1b",
    b"%YAML 1.1\n",
]
TOKENS += [b"010", b".nan", b"\xff", b"\x00", b"\r", "\u2028".encode(), b"\xef\xbb\xbf", b"#", b"@", b"`", b"~", b"9" * 50]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """The seed with some pieces put in, cut out or doubled."""
    data = SEED
    for _ in range(draw(st.integers(1, 5))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.sampled_from(TOKENS) | st.binary(max_size=4))
        data = draw(st.sampled_from([data[:at] + piece + data[at:], data[:at] + data[end:], data[:end] + data[at:]]))
    return data


def walk(node: Node) -> None:
    assert node.mark.line >= 1
    assert node.mark.column >= 1
    if isinstance(node, MappingNode):
        assert node.entries.keys() == node.key_marks.keys()
        assert all(isinstance(key, str) for key in node.entries)
    children = node.entries.values() if isinstance(node, MappingNode) else node.items if isinstance(node, SequenceNode) else ()
    for child in children:
        walk(child)


def refusal_of(body: Callable[[], object]) -> InputRejected | None:
    try:
        body()
    except InputRejected as error:
        return error
    return None


def assert_tree_or_refusal(data: bytes) -> None:
    refusal = refusal_of(lambda: parse_yaml(data, file="f.yaml"))
    if refusal is None:
        document = parse_yaml(data)
        walk(document.root)
        header = refusal_of(lambda: read_header(document, kinds=["eagle3"]))
        assert header is None or header.rule in ("contract.kind", "contract.schema-version")
        return
    assert refusal.rule in RULES
    assert refusal.where is not None
    assert refusal.where.file == "f.yaml"
    assert refusal.where.line is None or 1 <= refusal.where.line <= data.count(b"\n") + 2


@settings(max_examples=300)
@given(mutations())
def test_mutated_contracts(data: bytes) -> None:
    assert_tree_or_refusal(data)


@given(st.binary(max_size=60))
def test_random_bytes(data: bytes) -> None:
    assert_tree_or_refusal(data)


@pytest.mark.parametrize("data", [b"x: " + b"{a: " * 3000, b"- " * 3000, b"? " * 3000, b"[" * 100_000, b"a" * 200_000, b"'" * 99_999])
def test_long_and_deep(data: bytes) -> None:
    assert_tree_or_refusal(data)
