"""How far our forward may be from the engine's: by dtype, widened by what that dtype itself costs on these very inputs, never beyond a cap.

Legend: N rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.numerics.tolerance import NoTolerance, Tolerance, tolerance_for
from eagle3_contract.verify.divergence import EXACT

DTYPES: Final[Mapping[str, torch.dtype]] = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""Engine dtypes in which our forward is run a second time, to see what rounding does to these inputs."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Per-row distances between our float32 forward and our forward in the engine's dtype: median and worst row."""

    median: float
    worst: float

    @classmethod
    def of(cls, errors_N: Tensor) -> Floor:
        """From the distances of all rows; of none it is 0."""
        if not errors_N.numel():
            return cls(0.0, 0.0)
        return cls(float(errors_N.median()), float(errors_N.max()))


def bound(dtype: str, layers: int, floor: Floor | None, limit: float | None) -> Tolerance | NoTolerance:
    """The tolerance for a tensor that the drafter's layers give.

    Args:
        dtype: what the engine computes in.
        layers: of the drafter.
        floor: measured on the same inputs, for the 16-bit dtypes.
        limit: of the contract, which only ever tightens.
    """
    if dtype not in DTYPES:
        found: Tolerance | NoTolerance = EXACT
    else:
        found = tolerance_for(
            dtype, layers=layers, floor=None if floor is None else floor.median, worst_floor=None if floor is None else floor.worst
        )
    if limit is None or isinstance(found, NoTolerance):
        return found
    return Tolerance(min(found.median, limit), min(found.worst, limit), "contract")
