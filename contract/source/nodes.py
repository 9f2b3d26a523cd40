"""The tree that the loader makes. Marks count lines and columns from 1, as editors and CI annotations do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the root to a node; unambiguous also where a key has a dot in it (``fc.weight``)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the text: line and column from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarNode:
    """A scalar, resolved by the YAML 1.2 core rules. ``raw`` is its text; ``plain`` is True if it was written without quotes."""

    value: bool | int | float | str | None
    raw: str
    plain: bool
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceNode:
    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingNode:
    """A mapping. ``key_marks`` has a mark for every key of ``entries``."""

    entries: dict[str, Node]
    key_marks: dict[str, Mark]
    mark: Mark


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def to_plain(node: Node) -> Any:
    """The node's value as None, bool, int, float, str, list and dict."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, SequenceNode):
        return [to_plain(item) for item in node.items]
    return {key: to_plain(child) for key, child in node.entries.items()}


def path_text(path: Sequence[str | int]) -> str:
    """``tensors.fc.weight.shape[0]``: how a path is written in messages. The root is ``(document)``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(document)"


def child_of(node: Node, part: str | int) -> Node | None:
    """The child under a key or an index, or None."""
    if isinstance(node, MappingNode):
        return node.entries.get(part) if isinstance(part, str) else None
    if isinstance(node, SequenceNode) and isinstance(part, int) and 0 <= part < len(node.items):
        return node.items[part]
    return None


def mark_of_child(node: Node, part: str | int) -> Mark:
    """Where a child is found by eye: at its key in a mapping, at the item itself in a sequence. The child must exist."""
    if isinstance(node, MappingNode):
        return node.key_marks[str(part)]
    assert isinstance(node, SequenceNode)
    return node.items[int(part)].mark
