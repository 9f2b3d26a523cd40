"""Ranges of engine versions, such as ``>=0.30,<0.33``.

Versions are compared by their release numbers, padded with zeros. A pre-release or a local build (``0.5.0rc1``, ``0.5.0+cu128``) is no
release: it lies in a range only where ``==`` spells it out, because nobody who wrote the range has seen it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Final, TypeAlias

_CLAUSE: Final = re.compile(r"(==|!=|>=|<=|>|<)([0-9A-Za-z][0-9A-Za-z.+_-]{0,63})", re.ASCII)
_RELEASE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}", re.ASCII)
_OPERATORS: Final[dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    "==": eq,
    "!=": ne,
    ">=": ge,
    "<=": le,
    ">": gt,
    "<": lt,
}
_PARTS: Final = 8
Range: TypeAlias = tuple[tuple[str, str], ...]
"""Clauses, all of which must hold; none for ``any``."""


def parse_range(text: str) -> Range:
    """``any``, or clauses joined by commas.

    Raises:
        ValueError: it is neither.
    """
    if text == "any":
        return ()
    clauses = []
    for part in text.split(","):
        match = _CLAUSE.fullmatch(part.strip())
        if match is None or (match[1] != "==" and release(match[2]) is None):
            raise ValueError(f"{part.strip()!r} is no range of versions; write `==0.5.23`, `>=0.30,<0.33` or `any`")
        clauses.append((match[1], match[2]))
    return tuple(clauses)


def release(version: str) -> tuple[int, ...] | None:
    """``0.5.23`` as numbers, padded; None for a version that is no plain release."""
    if _RELEASE.fullmatch(version) is None:
        return None
    numbers = [int(part) for part in version.split(".")]
    return tuple(numbers + [0] * (_PARTS - len(numbers)))


def covers(wanted: Range, version: str | None) -> bool:
    """Whether a version lies in a range. An unknown version lies only in ``any``."""
    if not wanted:
        return True
    if version is None:
        return False
    numbers = release(version)
    for operator, bound in wanted:
        bound_numbers = release(bound)
        if numbers is None or bound_numbers is None:
            if operator != "==" or version != bound:
                return False
        elif not _OPERATORS[operator](numbers, bound_numbers):
            return False
    return True
