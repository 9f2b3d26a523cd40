"""Comparing the forward with the oracle."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eagle3_contract.drafter.forward import DraftOutput, teacher_forced
from eagle3_contract.model.wiring import Rollout, Wiring

from .build import Inputs, drafter_for, target_tensors, tensors_for
from .oracle import Oracle

TOLERANCE = 1e-5


def run(wiring: Wiring, inputs: Inputs, *, tensors: dict[str, Tensor] | None = None, steps: int = 3, **options: Any) -> DraftOutput:
    return teacher_forced(drafter_for(wiring, tensors), inputs.ids, inputs.states, steps=steps, **options)


def oracle(
    wiring: Wiring, inputs: Inputs, *, steps: int = 3, rollout: Rollout = Rollout.TEACHER, positions: Tensor | None = None
) -> Oracle:
    return Oracle(wiring, tensors_for(wiring), target_tensors(wiring)).run(inputs.ids, inputs.states, steps, rollout, positions)


def expected_steps(found: Oracle, rows: int, steps: int) -> list[Tensor]:
    width = next(iter(found.logits.values())).shape[0]
    out = [torch.full((rows, width), float("nan")) for _ in range(steps)]
    for (step, row), logits in found.logits.items():
        out[step][row] = logits.float()
    return out


def largest_miss(got: list[Tensor], expected: list[Tensor]) -> float:
    """Largest difference on rows alive in both, in units of the tolerance 1e-5 * max(1, max|logit|)."""
    worst = 0.0
    for g, e in zip(got, expected, strict=True):
        live = ~g.isnan() & ~e.isnan()
        if bool(live.any()):
            worst = max(worst, float((g - e)[live].abs().max()) / (TOLERANCE * max(1.0, float(e[live].abs().max()))))
    return worst


def same_rows(got: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(g.isnan(), e.isnan()) for g, e in zip(got, expected, strict=True))
