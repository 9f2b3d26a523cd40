"""Patterns that come from files (rules of waivers and policies, ranges of versions): as long as the limit allows, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.limits import Limits
from contract.source import Document
from contract.source.nodes import MappingNode, Node, Path, ScalarNode, SequenceNode

WAIVER_PATTERNS: Final[tuple[Path, ...]] = (
    ("waivers", "*", "rule"),
    ("waivers", "*", "scope", "engine"),
    ("waivers", "*", "scope", "versions"),
)
POLICY_PATTERNS: Final[tuple[Path, ...]] = (("waivers", "forbidden", "*"),)


def enforce_patterns(document: Document, patterns: tuple[Path, ...], limits: Limits) -> None:
    """Hold every pattern against the limit ``regex_length``, before anything tries to match it.

    Args:
        document: the file.
        patterns: paths of the patterns; ``*`` is every item of a list.

    Raises:
        LimitExceeded: the first that is too long, at its line.
    """
    for path in patterns:
        for place, node in _found(document.root, path):
            if isinstance(node.value, str):
                limits.enforce("regex_length", len(node.value), what="the pattern", where=document.where(place))


def _found(node: Node, path: Path, place: Path = ()) -> Iterator[tuple[Path, ScalarNode]]:
    if not path:
        if isinstance(node, ScalarNode):
            yield place, node
        return
    if path[0] == "*" and isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _found(item, path[1:], (*place, index))
    elif isinstance(node, MappingNode) and path[0] in node.entries:
        yield from _found(node.entries[str(path[0])], path[1:], (*place, path[0]))
