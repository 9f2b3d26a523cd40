"""The table judges every field of the contract, has no row for a field that is gone, and is what docs/diff.md prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec.inspect as mi
import pytest

from contract.statement import Fact, Statement
from eagle3_contract.diff.changes import weakened
from eagle3_contract.diff.leaves import Key
from eagle3_contract.diff.table import TABLE, Judgement, entry_of, matches
from eagle3_contract.model.spec import Contract

PAGE = Path(__file__).parents[2] / "docs" / "diff.md"
SECTIONS = {("tensors", "*"), ("golden",), ("acceptance", "baselines", "*"), ("wiring", "mla")}


def fields(type_: Any, key: Key = ()) -> Iterator[Key]:
    """The paths of all leaves, ``*`` for the keys of a mapping and the engines of the baselines."""
    if isinstance(type_, mi.Metadata):
        yield from fields(type_.type, key)
    elif _section(type_):
        for field in type_.fields:
            yield from fields(field.type, (*key, field.name))
    elif isinstance(type_, mi.DictType):
        yield from fields(type_.value_type, (*key, "*"))
    elif isinstance(type_, mi.ListType) and isinstance(type_.item_type, mi.StructType):
        yield from fields(type_.item_type, (*key, "*"))
    elif isinstance(type_, mi.UnionType) and any(map(_section, type_.types)):
        for part in type_.types:
            yield from fields(part, key)
    else:
        yield key


def _section(type_: mi.Type) -> bool:
    """A struct that is no statement of one value."""
    return isinstance(type_, mi.StructType) and getattr(type_.cls, "__origin__", type_.cls) is not Statement


ALL = {*fields(mi.type_info(Contract)), *SECTIONS}


def test_every_field_has_a_row() -> None:
    assert len(ALL) > 90
    for key in ALL:
        assert entry_of(key).why


@pytest.mark.parametrize("entry", TABLE, ids=lambda e: e.pattern)
def test_every_row_is_the_first_of_some_field(entry: Any) -> None:
    assert any(matches(entry.pattern, key) and entry_of(key) is entry for key in ALL)


def test_page_prints_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for entry in TABLE:
        assert f"| `{entry.pattern}` | {entry.judgement.value} | {entry.why} |" in text


@pytest.mark.parametrize(
    ("old", "new", "judgement", "weaker"),
    [
        (None, 0.1, Judgement.NOT_HIGHER, False),
        (0.1, None, Judgement.NOT_HIGHER, True),
        (0.1, 0.2, Judgement.NOT_HIGHER, True),
        (0.2, 0.1, Judgement.NOT_HIGHER, False),
        ([0.5, 0.4], [0.5], Judgement.NOT_LOWER, True),
        ([0.5], [0.5, 0.1], Judgement.NOT_LOWER, False),
        ("trainer", "tool", Judgement.NOT_LOWER, True),
        ("tool", "trainer", Judgement.NOT_LOWER, False),
    ],
)
def test_weakened(old: Any, new: Any, judgement: Judgement, weaker: bool) -> None:
    assert weakened(Fact(known=True, value=old), Fact(known=True, value=new), judgement) is weaker
