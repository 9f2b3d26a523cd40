"""Versions, and the choice of the rules that hold at one of them.

A rule of a profile says from which release it holds (``since``) and from which it no longer does (``until``, exclusive), and for
which runners. Everything that carries such a range is a ``Ranged``; ``in_force`` keeps what holds for one engine reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

_VERSION = re.compile(r"(\d{1,18}(?:\.\d{1,18}){0,7})(?:[.-]?(?:post|rc|dev|a|b)\d*)?", re.ASCII)
_PARTS = 3


def parse_version(text: str) -> tuple[int, ...] | None:
    """``0.5.13`` -> (0, 5, 13), padded with zeros; a ``.postN`` or ``rcN`` counts as its release. None if it is no version."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    parts = [int(p) for p in match.group(1).split(".")]
    return tuple(parts + [0] * (_PARTS - len(parts)))


def _parsed(text: str) -> tuple[int, ...]:
    version = parse_version(text)
    if version is None:
        raise ValueError(f"not a version: {text!r}")
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranged:
    """Holds from ``since`` (inclusive) to ``until`` (exclusive), for the named runners; empty means always."""

    since: str = ""
    until: str = ""
    runners: tuple[str, ...] = ()

    def holds(self, version: tuple[int, ...], runner: str | None) -> bool:
        if self.runners and runner not in self.runners:
            return False
        if self.since and version < _parsed(self.since):
            return False
        return not (self.until and version >= _parsed(self.until))


AnyRanged = TypeVar("AnyRanged", bound=Ranged)


def in_force(rules: Iterable[AnyRanged], version: tuple[int, ...], runner: str | None) -> tuple[AnyRanged, ...]:
    """The rules that hold at this version and runner, in their order."""
    return tuple(r for r in rules if r.holds(version, runner))


def within(version: tuple[int, ...], spans: Iterable[tuple[str, str]]) -> bool:
    """Whether the version lies in one of the spans of releases that were read (both ends inclusive)."""
    return any(_parsed(first) <= version <= _parsed(last) for first, last in spans)
