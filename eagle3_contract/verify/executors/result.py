"""What is left of a sample once it was measured: whole numbers, small enough to be kept for all and sent anywhere. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from contract.findings import Check


class SampleResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counts of one sample on the training path.

    Attributes:
        name: of the sample.
        rounds, accepted: of the greedy chain (verify.acceptance).
        right, rows: per step, in the contract's definition of accuracy; None where it could not be counted.
        covered, counted: tokens of the target under the mask that the draft vocabulary has, and all of them.
        missing: why ``right`` and ``rows`` are None, if it is for want of the target's tokens; with the remedy.
    """

    name: str
    rounds: int
    accepted: int
    right: tuple[int, ...] | None
    rows: tuple[int, ...] | None
    covered: int
    counted: int
    missing: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProblem:
    """A sample that could not be measured, and the check that it leaves."""

    name: str
    check: Check


Outcome: TypeAlias = SampleResult | SampleProblem
