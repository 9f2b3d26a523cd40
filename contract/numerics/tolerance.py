"""How far apart two captures of the same state may be.

tolerance = the larger of a bound for the dtype and ``FLOOR_FACTOR`` times the measured noise floor, capped by policy. A floor above the
cap is no wider tolerance: then nothing can be said, and the check is unknown.

All figures are per-row relative errors (L2), one bound for the median row and one for the worst row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from contract.errors import InternalError

ROUNDING: Final = {"float64": 2.0**-45, "float32": 2.0**-18, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Relative error that one decoder layer may add to the stream when another kernel computes it. For the 16-bit formats that is the
rounding of the layer's output (half a unit in the last place); for the wide ones the sums inside dominate: k products summed in
another order err by about sqrt(k) roundings, 85 of them at k = 7168."""
DTYPE_FACTOR: Final = 2.0
"""Roundings add up like a random walk, sqrt(layers) of them. SmolLM2-135M in bfloat16 under transformers 5.24: sdpa against eager
attention 0.4%, 1.1%, 1.2% and 1.7% in the median row after 2, 15, 27 and 30 layers, a batched forward the same, an implementation of
its own 0.5%, 1.4% and 1.9%; that is up to 0.9 of 2**-8 * sqrt(layers), and twice that leaves room. The same implementation on one
machine gives equal bits, also for a prefix of the text."""
FLOOR_FACTOR: Final = 3.0
"""Times the measured noise floor: the floor is itself an estimate from few repetitions."""
MEDIAN_CAP: Final = 0.05
"""Largest tolerance for the median row. Neighbouring boundaries lie at least 0.24 apart in the median (SmolLM2-135M, 30 layers), and
half of that is where a state could be taken for its neighbour."""
WORST_FACTOR: Final = 4.0
"""The worst row of some hundred against the median one: 2.0 to 4.4 times in the comparisons above."""
WORST_CAP: Final = 0.1
"""Largest tolerance for a single row: under half the distance between neighbouring boundaries. Measured was 0.068 at most."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bounds, inclusive, and where they come from (``dtype``, ``noise floor``, ``policy cap`` or ``given``)."""

    median: float
    worst: float
    source: str

    def allows(self, median: float, worst: float, worst_sink: float = 0.0) -> bool:
        """Whether the figures are within the bounds; a sink is judged as a worst row. NaN is never within."""
        return median <= self.median and worst <= self.worst and worst_sink <= self.worst


@dataclass(frozen=True, slots=True)
class NoTolerance:
    """No bound can be given: the measured noise is as large as the differences that are to be found."""

    floor: float
    cap: float

    @property
    def reason(self) -> str:
        return (
            f"the measured noise floor {self.floor:.2g} is above the largest tolerance allowed, {self.cap:.2g}: "
            "states that differ cannot be told from noise"
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """The caps. An organisation may lower them; nothing raises them."""

    median_cap: float = MEDIAN_CAP
    worst_cap: float = WORST_CAP

    def __post_init__(self) -> None:
        if not (0.0 <= self.median_cap <= MEDIAN_CAP and 0.0 <= self.worst_cap <= WORST_CAP):
            raise InternalError(f"tolerance caps can only be lowered: {self.median_cap}, {self.worst_cap}")


def dtype_bound(dtype: str, *, layers: int) -> float:
    """Bound for the median row after ``layers`` decoder layers in that dtype (``bfloat16`` ...), when the kernels may differ.

    Raises:
        InternalError: the dtype is none that a stream is computed in.
    """
    unit = ROUNDING.get(dtype)
    if unit is None:
        raise InternalError(f"no tolerance for dtype {dtype!r}; known are {', '.join(ROUNDING)}")
    return DTYPE_FACTOR * unit * math.sqrt(max(1, layers))


def tolerance_for(
    dtype: str, *, layers: int, floor: float | None = None, worst_floor: float | None = None, policy: Policy | None = None
) -> Tolerance | NoTolerance:
    """The tolerance for states of that dtype.

    Args:
        dtype: the coarser one of the two sides.
        layers: decoder layers that both sides computed by themselves (the number of the boundary).
        floor: measured noise, median row: the same engine twice, in different batches.
        worst_floor: the same, worst row.
        policy: lower caps.
    """
    caps = policy or Policy()
    for measured, cap in ((floor, caps.median_cap), (worst_floor, caps.worst_cap)):
        if measured is not None and not measured <= cap:  # NaN is not below anything
            return NoTolerance(floor=measured, cap=cap)
    bound = dtype_bound(dtype, layers=layers)
    median = max(bound, FLOOR_FACTOR * (floor or 0.0))
    worst = max(WORST_FACTOR * bound, FLOOR_FACTOR * (worst_floor or 0.0), median)
    if median > caps.median_cap or worst > caps.worst_cap:
        source = "policy cap"
    else:
        source = "dtype" if median == bound and worst == max(WORST_FACTOR * bound, median) else "noise floor"
    median = min(median, caps.median_cap)
    return Tolerance(median=median, worst=min(worst, caps.worst_cap), source=source)
