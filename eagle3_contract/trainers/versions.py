"""Versions of trainers, compared by their release numbers."""

from __future__ import annotations

import re


def release(version: object) -> tuple[int, ...] | None:
    """(0, 9, 0) of ``0.9.0``, ``0.9.0.dev3+g1a2b`` or ``v0.9.0``; None for what is no version."""
    found = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,5})", version) if isinstance(version, str) else None
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def before(version: object, bound: str) -> bool | None:
    """Whether ``version`` is a release before ``bound``; None if it is not known."""
    mine, other = release(version), release(bound)
    if mine is None or other is None:
        return None
    width = max(len(mine), len(other))
    return mine + (0,) * (width - len(mine)) < other + (0,) * (width - len(other))
