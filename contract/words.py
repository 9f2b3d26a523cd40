"""Turns of phrase that messages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FEW: Final = 4
"""Names that a message gives before it counts the rest."""


def first_few(names: Sequence[str], count: int = FEW) -> str:
    """``a, b, c, d and 96 more``."""
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more > 0 else "")
