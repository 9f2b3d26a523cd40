"""From YAML events to nodes, in one pass that stops at the first forbidden thing.

libyaml's events carry anchors, tags and aliases as they are written, and are made lazily: an alias bomb is refused at its first
anchor, a deep file at its 33rd bracket, before anything has been expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from contract.limits import Limits
from contract.source.nodes import MappingNode, Mark, Node, ScalarNode, SequenceNode
from contract.source.rules import reject
from contract.source.scalars import resolve_plain
from contract.source.text import HIDDEN_IN_VALUE

if TYPE_CHECKING:
    from yaml._yaml import Mark as CMark

# The pure parser sees the same files; it is only slower.
_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLACE: Final = re.compile(r"\s+")


@dataclass(slots=True)
class _Open:
    """A collection that has been begun. ``key`` is the key that waits for its value (mappings only)."""

    is_mapping: bool
    mark: Mark
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    key_marks: dict[str, Mark] = field(default_factory=dict)
    key: str | None = None

    def close(self) -> Node:
        if self.is_mapping:
            return MappingNode(entries=self.entries, key_marks=self.key_marks, mark=self.mark)
        return SequenceNode(items=tuple(self.items), mark=self.mark)


def build(text: str, *, file: str, limits: Limits) -> Node:
    """The tree of the one document in ``text``.

    Raises:
        InputRejected: a ``contract.yaml-*`` rule, with line and column.
    """
    root: Node | None = None
    stack: list[_Open] = []
    documents = nodes = 0
    for event in _events(text, file=file):
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise reject("yaml-multiple-documents", "a second document starts here", file=file, mark=mark)
            continue
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        node: Node | None = None
        if isinstance(event, yaml.CollectionEndEvent):
            node = stack.pop().close()
        else:
            nodes += 1
            if nodes > limits.yaml_nodes:
                raise reject("yaml-too-many-nodes", f"more than {limits.yaml_nodes} nodes", file=file, mark=mark)
            _refuse_indirection(event, file=file, mark=mark)
            if isinstance(event, yaml.ScalarEvent):
                if stack and stack[-1].is_mapping and stack[-1].key is None:
                    _take_key(stack[-1], event, file=file, mark=mark)
                    continue
                node = _scalar(event, file=file, mark=mark)
            else:
                _open(stack, event, file=file, mark=mark, limits=limits)
        if node is not None:
            if stack:
                _attach(stack[-1], node)
            else:
                root = node
    if root is None or (isinstance(root, ScalarNode) and root.plain and root.raw == ""):
        raise reject("yaml-empty", "the file holds no document", file=file, mark=Mark(1, 1))
    return root


def _events(text: str, *, file: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = _mark(error.problem_mark or error.context_mark)
        said = ", ".join(_PLACE.sub(" ", part) for part in (error.context, error.problem) if part)
        # libyaml looks ahead for a ':' after the bracket, and has a depth limit of its own that it may reach before we do.
        rule = "yaml-too-deep" if "maximum nesting depth" in said else "yaml-syntax"
        raise reject(rule, f"not well-formed YAML: {said}", file=file, mark=mark) from error
    except yaml.YAMLError as error:
        raise reject("yaml-syntax", f"not well-formed YAML: {_PLACE.sub(' ', str(error))}", file=file) from error


def _mark(mark: yaml.Mark | CMark | None) -> Mark:
    return Mark(1, 1) if mark is None else Mark(mark.line + 1, mark.column + 1)


def _refuse_indirection(event: yaml.NodeEvent, *, file: str, mark: Mark) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise reject("yaml-alias", f"aliases are not allowed: *{event.anchor}", file=file, mark=mark)
    if event.anchor is not None:
        raise reject("yaml-alias", f"anchors are not allowed: &{event.anchor}", file=file, mark=mark)
    if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
        raise reject("yaml-tag", f"tags are not allowed: {event.tag}", file=file, mark=mark)


def _open(stack: list[_Open], event: yaml.NodeEvent, *, file: str, mark: Mark, limits: Limits) -> None:
    if stack and stack[-1].is_mapping and stack[-1].key is None:
        raise reject("yaml-key-not-string", "a collection is no key", file=file, mark=mark)
    if len(stack) >= limits.yaml_depth:
        raise reject("yaml-too-deep", f"nested deeper than {limits.yaml_depth}", file=file, mark=mark)
    stack.append(_Open(is_mapping=isinstance(event, yaml.MappingStartEvent), mark=mark))


def _take_key(parent: _Open, event: yaml.ScalarEvent, *, file: str, mark: Mark) -> None:
    plain = event.style is None or event.style == ""
    if plain and event.value == "<<":
        raise reject("yaml-merge-key", "merge keys are not allowed", file=file, mark=mark)
    key = _scalar(event, file=file, mark=mark).value
    if not isinstance(key, str):
        shown = event.value or "null"
        fix = f'Write "{shown}" if it is meant as a name.'
        raise reject("yaml-key-not-string", f"the key {shown} is no string", file=file, mark=mark, fix=fix)
    if (first := parent.key_marks.get(key)) is not None:
        said = f"the key {key!r} of line {first.line} is given again in line {mark.line}"
        raise reject("yaml-duplicate-key", said, file=file, mark=mark, key=key)
    parent.key = key
    parent.key_marks[key] = mark


def _attach(parent: _Open, node: Node) -> None:
    if not parent.is_mapping:
        parent.items.append(node)
        return
    assert parent.key is not None
    parent.entries[parent.key] = node
    parent.key = None


def _scalar(event: yaml.ScalarEvent, *, file: str, mark: Mark) -> ScalarNode:
    plain = event.style is None or event.style == ""
    raw = event.value
    if (hidden := HIDDEN_IN_VALUE.search(raw)) is not None:
        raise reject("control-character", f"an escape makes the character U+{ord(hidden[0]):04X}", file=file, mark=mark)
    value = resolve_plain(raw, file=file, mark=mark) if plain else raw
    return ScalarNode(value=value, raw=raw, plain=plain, mark=mark)
