"""A contract as a flat map from paths to what is stated there, so that two of them can be laid side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from contract.source.nodes import Path, path_text
from contract.statement import Fact, Statement, fact
from eagle3_contract.model.spec import Baseline, Contract

Key: TypeAlias = tuple[str, ...]
"""Where a leaf belongs: as the path in the file, but a baseline is keyed by its engine and not by its place in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One thing that a contract states.

    Attributes:
        at: where it is in the document.
        fact: the value, or that it is unknown; a section that may be absent is a leaf too, with its content as the value.
        section: True for such a section. Two of them are equal; what is in them is compared leaf by leaf.
    """

    at: Path
    fact: Fact
    section: bool = False


def leaves(contract: Contract) -> dict[Key, Leaf]:
    """Every statement of a contract, sections that may be absent (``golden``, a tensor, a file of a list) before their content."""
    return dict(_visit(contract, (), ()))


def key_text(key: Key) -> str:
    return path_text(key)


def _visit(value: Any, key: Key, at: Path) -> Iterator[tuple[Key, Leaf]]:
    if isinstance(value, Statement):
        yield key, Leaf(at=at, fact=fact(value))
    elif isinstance(value, msgspec.Struct):
        if key and _optional(key):
            yield key, Leaf(at=at, fact=_plain(value), section=True)
        for name in value.__struct_fields__:
            yield from _visit(getattr(value, name), (*key, name), (*at, name))
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _visit(entry, (*key, name), (*at, name))
    elif isinstance(value, list) and any(isinstance(item, Baseline) for item in value):
        for index, item in enumerate(value):
            yield from _visit(item, (*key, _engine(item, value[:index])), (*at, index))
    elif not (isinstance(value, list) and key == ("acceptance", "baselines")):
        yield key, Leaf(at=at, fact=Fact(known=True, value=value))


def _optional(key: Key) -> bool:
    """Sections that one contract may have and another not."""
    return key in (("golden",), ("wiring", "mla")) or key[:-1] in (("tensors",), ("acceptance", "baselines"))


def _engine(item: Baseline, before: list[Baseline]) -> str:
    again = sum(other.engine == item.engine for other in before)
    return item.engine if not again else f"{item.engine} ({again + 1})"


def _plain(value: msgspec.Struct) -> Fact:
    return Fact(known=True, value=msgspec.to_builtins(value))
