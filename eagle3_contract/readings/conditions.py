"""Conditions and sums in profiles, and their evaluation in three values: true, false, and unknown (None).

A *path* names a value by namespace: ``cfg:eagle_config.norm_before_fc`` (the drafter's config as the engine holds it),
``target:vocab_size``, ``flag:speculative_num_steps``, ``field:fc.count`` (an earlier field of this reading), ``tensor:fc.weight`` (whether
the file feeds that engine parameter), ``file:d2t.min``. ``=H*K`` is a sum of products over the profile's symbols; on the
right of a test, ``@file:name`` is the value of a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias


class Mark(Enum):
    """What is not a value: ``MISSING`` (certainly not there) and ``UNKNOWN`` (cannot be said from what was given)."""

    MISSING = "missing"
    UNKNOWN = "unknown"


MISSING: Final = Mark.MISSING
UNKNOWN: Final = Mark.UNKNOWN


class Scope(Protocol):
    """Where paths and symbols get their values."""

    def value(self, path: str) -> Any: ...
    def symbol(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Test:
    """``Test("cfg:bias", "truthy")``, ``Test("=FED", "!=", "=H")``. Operators: ``OPERATORS``."""

    __test__ = False  # not a pytest class
    left: str
    op: str
    right: Any = None


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition


Condition: TypeAlias = Test | Every | AnyOf | Not


def every(*parts: Condition) -> Every:
    return Every(parts)


def any_of(*parts: Condition) -> AnyOf:
    return AnyOf(parts)


def absent(path: str) -> Test:
    return Test(path, "absent")


def present(path: str) -> Test:
    return Test(path, "present")


def truthy(path: str) -> Test:
    return Test(path, "truthy")


def equal(path: str, value: Any) -> Test:
    return Test(path, "==", value)


def unlike(path: str, value: Any) -> Test:
    return Test(path, "!=", value)


def one_of(path: str, *values: Any) -> Test:
    return Test(path, "in", values)


def less(left: str, right: Any) -> Test:
    return Test(left, "<", right)


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def _less(left: Any, right: Any) -> bool:
    return _number(left) and _number(right) and left < right


OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "truthy": lambda left, _: bool(left),
    "falsy": lambda left, _: not left,
    "null": lambda left, _: left is None,
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "in": lambda left, right: left in right,
    "contains": lambda left, right: right in left,
    "names": lambda left, right: isinstance(left, str) and left.rstrip("/").rpartition("/")[2].lower() == right,
    "no multiple of": lambda left, right: _number(left) and _number(right) and left > right > 0 and left % right != 0,
    "not in": lambda left, right: left not in right,
    "is": lambda left, right: isinstance(left, {"dict": dict, "float": float, "str": str, "list": list}[right]),
}
_FALSE_WHEN_MISSING = frozenset({"truthy", "null", "==", "<", ">", "in", "is", "contains", "names", "no multiple of"})


def holds(condition: Condition, scope: Scope) -> bool | None:
    """Whether the condition holds; None if a value that decides it is unknown."""
    if isinstance(condition, Every):
        results = [holds(p, scope) for p in condition.parts]
        return False if False in results else None if None in results else True
    if isinstance(condition, AnyOf):
        results = [holds(p, scope) for p in condition.parts]
        return True if True in results else None if None in results else False
    if isinstance(condition, Not):
        inner = holds(condition.part, scope)
        return None if inner is None else not inner
    return _test(condition, scope)


def _test(test: Test, scope: Scope) -> bool | None:
    left = resolve(test.left, scope)
    if left is UNKNOWN:
        return None
    if test.op in ("present", "absent"):
        return (left is not MISSING) == (test.op == "present")
    if left is MISSING:
        return test.op not in _FALSE_WHEN_MISSING
    right = test.right
    if isinstance(right, str) and right[:1] in ("=", "@"):
        right = resolve(right.removeprefix("@"), scope)
    if right is UNKNOWN:
        return None
    return OPERATORS[test.op](left, right)


def resolve(path: str, scope: Scope) -> Any:
    """The value of a path or of an ``=`` sum."""
    return total(path[1:], scope) if path.startswith("=") else scope.value(path)


_TERM = re.compile(r"\s*(?P<sign>[+-]?)\s*(?P<term>[A-Za-z0-9_]+(?:(?:\*|//)[A-Za-z0-9_]+)*)")
_FACTOR = re.compile(r"(\*|//)")


def total(expression: str, scope: Scope) -> Any:
    """A sum of products of symbols and whole numbers: ``NH*D``, ``N//2``, ``STEPS+1``. UNKNOWN if a symbol is; no other syntax."""
    result: float = 0
    at = 0
    while at < len(expression):
        match = _TERM.match(expression, at)
        if match is None:
            raise ValueError(f"not a sum of products: {expression!r}")
        product = _product(match["term"], scope)
        if product is UNKNOWN:
            return UNKNOWN
        result += -product if match["sign"] == "-" else product
        at = match.end()
    # A float factor (rope's) times a whole number is a whole number wherever it can be.
    return int(result) if isinstance(result, float) and result.is_integer() else result


def _product(term: str, scope: Scope) -> Any:
    pieces = _FACTOR.split(term)
    result = _factor(pieces[0], scope)
    for operator, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        factor = _factor(piece, scope)
        if result is UNKNOWN or factor is UNKNOWN or (operator == "//" and factor == 0):
            return UNKNOWN
        try:
            result = result * factor if operator == "*" else result // factor
        except OverflowError:  # a whole number of a config beyond every float
            return UNKNOWN
    return result


def _factor(piece: str, scope: Scope) -> Any:
    if piece.isdigit():
        return int(piece)
    value = scope.symbol(piece)
    return value if _number(value) else UNKNOWN
