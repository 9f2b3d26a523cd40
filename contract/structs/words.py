"""Types and nodes in words, and the hints for what was probably meant."""

from __future__ import annotations

import re
from typing import Final

import msgspec.inspect as mi

from contract.errors import InternalError
from contract.source.nodes import MappingNode, Node, ScalarNode
from contract.source.scalars import BOOLEAN_LOOKALIKES

_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_UNDERSCORED: Final = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)+", re.ASCII)
LISTS: Final = (mi.ListType, mi.VarTupleType, mi.SetType, mi.FrozenSetType, mi.CollectionType)
STATEMENT_KEYS: Final = frozenset({"value", "unknown"})


def bare(type_: mi.Type) -> mi.Type:
    """The type without its annotations."""
    while isinstance(type_, mi.Metadata):
        type_ = type_.type
    return type_


def members(type_: mi.Type) -> tuple[mi.Type, ...]:
    """The members of a union, or the type itself; annotations removed, nested unions flattened."""
    inner = bare(type_)
    return tuple(m for t in inner.types for m in members(t)) if isinstance(inner, mi.UnionType) else (inner,)


def expected_words(type_: mi.Type) -> str:
    """``a whole number >= 1, null or {value: ...} or {unknown: ...}``."""
    words = list(dict.fromkeys(_member_words(m) for m in members(type_)))
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def found_words(node: Node) -> str:
    """What stands in the file, shortened."""
    if isinstance(node, ScalarNode):
        if node.value is None:
            return "null"
        shown = node.raw if len(node.raw) <= 60 else node.raw[:60] + "…"
        kinds = {bool: "the boolean", int: "the whole number", float: "the number", str: "the string"}
        return f"{kinds[type(node.value)]} {shown!r}" if isinstance(node.value, str) else f"{kinds[type(node.value)]} {shown}"
    return "a mapping" if isinstance(node, MappingNode) else f"a list of {len(node.items)}"


def type_hint(node: Node, type_: mi.Type) -> str | None:
    """What to write instead, where the value betrays what was meant."""
    wanted = members(type_)
    if isinstance(node, ScalarNode):
        for member in wanted:
            if (hint := _scalar_hint(node, member)) is not None:
                return hint
        if node.value is not None and any(isinstance(m, LISTS) for m in wanted):
            return f"Write a list: [{node.raw}]."
    if any(_is_statement(m) for m in wanted):
        return "Write the value itself, {value: ..., evidence: ...}, or {unknown: <reason>}."
    return None


def _scalar_hint(node: ScalarNode, member: mi.Type) -> str | None:
    value, text = node.value, node.raw
    if isinstance(member, mi.BoolType) and isinstance(value, str):
        if text in BOOLEAN_LOOKALIKES:
            return f"Write {BOOLEAN_LOOKALIKES[text]}: only true and false are booleans here (YAML 1.2)."
        return f"Write {text} without quotes." if text in ("true", "false") else None
    if isinstance(member, mi.StrType) and value is not None and not isinstance(value, str):
        return f'Write "{text}" in quotes.'
    if isinstance(member, mi.IntType | mi.FloatType) and isinstance(value, str):
        if _UNDERSCORED.fullmatch(text):
            return f"Write {text.replace('_', '')}: numbers have no underscores here (YAML 1.2)."
        return f"Write {text} without quotes." if _NUMBER.fullmatch(text) and not node.plain else None
    if isinstance(member, mi.IntType) and isinstance(value, float) and value.is_integer():
        return f"Write {int(value)}, a whole number."
    return None


def _is_statement(type_: mi.Type) -> bool:
    return isinstance(type_, mi.StructType) and {f.encode_name for f in type_.fields} >= STATEMENT_KEYS


def _member_words(type_: mi.Type) -> str:
    match type_:
        case mi.NoneType():
            return "null"
        case mi.BoolType():
            return "true or false"
        case mi.IntType():
            return "a whole number" + bounds_words(type_)
        case mi.FloatType():
            return "a number" + bounds_words(type_)
        case mi.StrType():
            return "a string" + _length_words(type_.min_length, type_.max_length, "characters") + _pattern_words(type_)
        case mi.LiteralType() | mi.EnumType():
            return "one of " + ", ".join(str(v) for v in choices(type_))
        case mi.ListType() | mi.VarTupleType() | mi.SetType() | mi.FrozenSetType() | mi.CollectionType():
            return f"a list of ({expected_words(type_.item_type)})" + _length_words(type_.min_length, type_.max_length, "items")
        case mi.TupleType():
            return f"a list of {len(type_.item_types)} items"
        case mi.DictType():
            return f"a mapping to ({expected_words(type_.value_type)})"
        case mi.StructType():
            if _is_statement(type_):
                return "{value: ...} or {unknown: <reason>}"
            return "a mapping with the keys " + ", ".join(f.encode_name for f in type_.fields)
        case mi.AnyType():
            return "anything"
    raise InternalError(f"contract structs cannot use the type {type_!r}")


def choices(type_: mi.LiteralType | mi.EnumType) -> tuple[bool | str | int | None, ...]:
    """The values that a Literal or an Enum has in a file."""
    if isinstance(type_, mi.LiteralType):
        return tuple(type_.values)
    return tuple(member.value for member in type_.cls)


def bounds_words(type_: mi.IntType | mi.FloatType) -> str:
    """`` >= 1 and < 9``, or nothing."""
    bounds = ((">", type_.gt), (">=", type_.ge), ("<", type_.lt), ("<=", type_.le), ("a multiple of", type_.multiple_of))
    said = [f"{sign} {bound}" for sign, bound in bounds if bound is not None]
    return " " + " and ".join(said) if said else ""


def _length_words(least: int | None, most: int | None, unit: str) -> str:
    said = [f"at least {least}"] if least else []
    said += [f"at most {most}"] if most is not None else []
    return f" of {' and '.join(said)} {unit}" if said else ""


def _pattern_words(type_: mi.StrType) -> str:
    return f" matching {type_.pattern}" if type_.pattern is not None else ""
