"""Walk a node beside a type and note every disagreement, each with its key and place.

msgspec.convert stops at the first error and knows no lines; this finds all of them, and agrees with it on what is right
(tests/structs has the property).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any, get_origin

import msgspec
import msgspec.inspect as mi

from contract.errors import InternalError
from contract.findings import Check, Json, Rule, Where
from contract.source.nodes import MappingNode, Mark, Node, Path, ScalarNode, SequenceNode, path_text, to_plain
from contract.structs.problems import BAD_VALUE, MISSING_KEY, UNKNOWN_KEY, WRONG_TYPE, problem
from contract.structs.words import LISTS, choices, expected_words, found_words, members, type_hint


@dataclass(slots=True)
class Walker:
    """Collects the problems of one file in ``problems``."""

    file: str
    problems: list[Check] = field(default_factory=list)

    def visit(self, node: Node, type_: mi.Type, path: Path, mark: Mark) -> None:
        """Compare a node with a type. ``mark`` is where the node is found by eye (its key)."""
        options = members(type_)
        if any(isinstance(m, mi.AnyType) for m in options):
            return
        if isinstance(node, ScalarNode):
            self._scalar(node, type_, path, mark)
        elif isinstance(node, SequenceNode):
            self._sequence(node, type_, [m for m in options if isinstance(m, (*LISTS, mi.TupleType))], path, mark)
        else:
            self._mapping(node, type_, [m for m in options if isinstance(m, mi.StructType | mi.DictType)], path, mark)

    def _add(self, rule: Rule, path: Path, mark: Mark, said: str, *, expected: Json, actual: Json, fix: str | None = None) -> None:
        key = path_text(path) if path else None
        where = Where(file=self.file, line=mark.line, column=mark.column, key=key)
        message = f"{key}: {said}" if key else said
        self.problems.append(problem(rule, message, where=where, expected=expected, actual=actual, fix=fix))

    def _mismatch(self, node: Node, type_: mi.Type, path: Path, mark: Mark) -> None:
        wanted, found, hint = expected_words(type_), found_words(node), type_hint(node, type_)
        self._add(WRONG_TYPE, path, mark, f"expected {wanted}, found {found}", expected=wanted, actual=to_plain(node), fix=hint)

    def _scalar(self, node: ScalarNode, type_: mi.Type, path: Path, mark: Mark) -> None:
        fits = [_scalar_fit(node.value, member) for member in members(type_)]
        if _Fit.RIGHT in fits:
            return
        if _Fit.WRONG_VALUE not in fits:
            self._mismatch(node, type_, path, mark)
            return
        near = get_close_matches(str(node.value), [str(c) for c in _all_choices(type_)], n=1)
        fix = f"Did you mean {near[0]}?" if near else None
        wanted = expected_words(type_)
        said = f"expected {wanted}, found {found_words(node)}"
        self._add(BAD_VALUE, path, mark, said, expected=wanted, actual=node.value, fix=fix)

    def _sequence(self, node: SequenceNode, type_: mi.Type, lists: list[mi.Type], path: Path, mark: Mark) -> None:
        if not lists:
            self._mismatch(node, type_, path, mark)
            return
        wanted: Any = lists[0]
        if isinstance(wanted, mi.TupleType):
            if len(node.items) != len(wanted.item_types):
                self._length(len(node.items), f"{len(wanted.item_types)} items", path, mark)
            types: Iterable[mi.Type] = wanted.item_types
        else:
            self._check_length(len(node.items), wanted.min_length, wanted.max_length, "items", path, mark)
            types = [wanted.item_type] * len(node.items)
        for index, (item, item_type) in enumerate(zip(node.items, types, strict=False)):
            self.visit(item, item_type, (*path, index), item.mark)

    def _mapping(self, node: MappingNode, type_: mi.Type, mappings: list[mi.Type], path: Path, mark: Mark) -> None:
        if not mappings:
            self._mismatch(node, type_, path, mark)
            return
        wanted = mappings[0]
        if isinstance(wanted, mi.StructType):
            self._struct(node, wanted, path, mark)
            return
        assert isinstance(wanted, mi.DictType)
        self._check_length(len(node.entries), wanted.min_length, wanted.max_length, "entries", path, mark)
        for key, child in node.entries.items():
            key_mark = node.key_marks[key]
            self.visit(ScalarNode(value=key, raw=key, plain=False, mark=key_mark), wanted.key_type, (*path, key), key_mark)
            self.visit(child, wanted.value_type, (*path, key), key_mark)

    def _struct(self, node: MappingNode, wanted: mi.StructType, path: Path, mark: Mark) -> None:
        if not wanted.forbid_unknown_fields or wanted.array_like or wanted.tag is not None:
            raise InternalError(f"{wanted.cls} must be a plain Struct with forbid_unknown_fields=True")
        before = len(self.problems)
        fields = {f.encode_name: f for f in wanted.fields}
        missing = [name for name, f in fields.items() if f.required and name not in node.entries]
        if missing:
            said = f"missing {'key' if len(missing) == 1 else 'keys'} {', '.join(missing)}"
            self._add(MISSING_KEY, path, mark, said, expected=[n for n, f in fields.items() if f.required], actual=list(node.entries))
        for key, child in node.entries.items():
            if key in fields:
                self.visit(child, fields[key].type, (*path, key), node.key_marks[key])
            else:
                self._unknown_key(key, [n for n in fields if n not in node.entries], list(fields), (*path, key), node.key_marks[key])
        if len(self.problems) == before and hasattr(get_origin(wanted.cls) or wanted.cls, "__post_init__"):
            self._own_rules(node, wanted, path, mark)

    def _unknown_key(self, key: str, absent: list[str], known: list[str], path: Path, mark: Mark) -> None:
        near = get_close_matches(key, absent, n=1) or get_close_matches(key, known, n=1)
        fix = f"Did you mean {near[0]}?" if near else f"Known here: {', '.join(known)}."
        said = f"unknown key {key}" + (f"; did you mean {near[0]}?" if near else "")
        self._add(UNKNOWN_KEY, path, mark, said, expected=known, actual=key, fix=fix)

    def _own_rules(self, node: MappingNode, wanted: mi.StructType, path: Path, mark: Mark) -> None:
        """What the Struct's own ``__post_init__`` says about fields that are right one by one."""
        try:
            msgspec.convert(to_plain(node), wanted.cls)
        except msgspec.ValidationError as error:
            self._add(BAD_VALUE, path, mark, str(error), expected=expected_words(wanted), actual=to_plain(node))

    def _check_length(self, length: int, least: int | None, most: int | None, unit: str, path: Path, mark: Mark) -> None:
        if least is not None and length < least:
            self._length(length, f"at least {least} {unit}", path, mark)
        if most is not None and length > most:
            self._length(length, f"at most {most} {unit}", path, mark)

    def _length(self, length: int, wanted: str, path: Path, mark: Mark) -> None:
        self._add(BAD_VALUE, path, mark, f"expected {wanted}, found {length}", expected=wanted, actual=length)


class _Fit(Enum):
    """How a scalar and one scalar type go together."""

    RIGHT = auto()
    WRONG_VALUE = auto()
    WRONG_TYPE = auto()


def _scalar_fit(value: Any, type_: mi.Type) -> _Fit:
    match type_:
        case mi.NoneType():
            return _Fit.RIGHT if value is None else _Fit.WRONG_TYPE
        case mi.BoolType():
            return _Fit.RIGHT if isinstance(value, bool) else _Fit.WRONG_TYPE
        case mi.IntType() | mi.FloatType():
            typed = isinstance(value, int if isinstance(type_, mi.IntType) else int | float) and not isinstance(value, bool)
            right = typed and _in_bounds(value, type_)
        case mi.StrType():
            typed = isinstance(value, str)
            right = typed and _in_shape(value, type_)
        case mi.LiteralType() | mi.EnumType():
            typed = any(type(value) is type(choice) for choice in choices(type_))
            right = typed and value in choices(type_)
        case _:
            return _Fit.WRONG_TYPE
    return _Fit.RIGHT if right else _Fit.WRONG_VALUE if typed else _Fit.WRONG_TYPE


def _in_bounds(value: float, type_: mi.IntType | mi.FloatType) -> bool:
    return (
        (type_.gt is None or value > type_.gt)
        and (type_.ge is None or value >= type_.ge)
        and (type_.lt is None or value < type_.lt)
        and (type_.le is None or value <= type_.le)
        and (type_.multiple_of is None or value % type_.multiple_of == 0)
    )


def _in_shape(value: str, type_: mi.StrType) -> bool:
    return (
        (type_.min_length is None or len(value) >= type_.min_length)
        and (type_.max_length is None or len(value) <= type_.max_length)
        and (type_.pattern is None or re.search(type_.pattern, value) is not None)
    )


def _all_choices(type_: mi.Type) -> list[bool | str | int | None]:
    return [c for m in members(type_) if isinstance(m, mi.LiteralType | mi.EnumType) for c in choices(m)]
