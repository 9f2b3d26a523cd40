"""Conditions of a profile in words."""

from __future__ import annotations

from typing import Any, Final

from eagle3_contract.readings.conditions import AnyOf, Condition, Every, Not, Test
from tools.docs_site.markdown import code

_WORDS: Final = {
    "truthy": "is true",
    "falsy": "is not true",
    "null": "is null",
    "present": "is there",
    "absent": "is absent",
    "names": "names",
}
_SPACES: Final = {"cfg": "config", "target": "target config", "flag": "flag", "field": "field", "tensor": "tensor", "file": "file"}


def path(value: str) -> str:
    """``cfg:fc_norm`` as ``config `fc_norm` ``."""
    space, colon, rest = value.partition(":")
    return f"{_SPACES[space]} {code(rest)}" if colon and space in _SPACES else code(value)


def words(condition: Condition | None) -> str:
    """The condition; empty without one."""
    if condition is None:
        return ""
    if isinstance(condition, Every):
        return " and ".join(words(part) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return "(" + " or ".join(words(part) for part in condition.parts) + ")"
    if isinstance(condition, Not):
        return f"not ({words(condition.part)})"
    return _test(condition)


def _test(test: Test) -> str:
    left = path(test.left)
    if test.op in _WORDS and test.right is None:
        return f"{left} {_WORDS[test.op]}"
    return f"{left} {code(test.op)} {value(test.right)}"


def value(said: Any) -> str:
    """A value as code; a sum over symbols and a path as what they are."""
    if isinstance(said, str) and said.startswith("@"):
        return path(said[1:])
    if isinstance(said, str) and said.startswith("="):
        return code(said[1:])
    if isinstance(said, tuple):
        return ", ".join(value(v) for v in said)
    return code("null" if said is None else str(said).lower() if isinstance(said, bool) else said)
