"""Intervals by resampling whole parts (samples, requests), the same on every run. No torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
SEED: Final = 20240
"""Of the bootstrap, so that the interval is the same on every run."""
Part = TypeVar("Part")


def resampled(parts: Sequence[Part], figure: Callable[[Sequence[Part]], float]) -> tuple[float, float]:
    """The interval of a figure over parts; NaN where there is no part, or never a finite figure."""
    if not parts:
        return math.nan, math.nan
    rng = random.Random(SEED)
    return middle([figure(rng.choices(parts, k=len(parts))) for _ in range(RESAMPLES)])


def middle(draws: Sequence[float]) -> tuple[float, float]:
    """The ends of the middle ``CONFIDENCE`` of some draws; those that are not finite are left out."""
    ordered = sorted(d for d in draws if math.isfinite(d))
    if not ordered:
        return math.nan, math.nan
    cut = (1 - CONFIDENCE) / 2
    return ordered[int(cut * len(ordered))], ordered[min(len(ordered) - 1, int((1 - cut) * len(ordered)))]
