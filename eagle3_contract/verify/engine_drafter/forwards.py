"""Our layers against the engine's on its own inputs, row by row.

Legend: M rows of a request, U used rows, H hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.numerics.statistics import row_errors
from contract.numerics.tolerance import Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_drafter.replay import Inputs, Outputs, replay
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.views import RIGHT, View, seen

TENSORS: Final = ("state_out", "final_normed")
"""What the layers give, in the order of computation (the state handed on is the one before the final norm, if not told otherwise)."""


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Per used row of a request the relative distance of each tensor, float64 [U]; NaN where the engine's was not recorded."""

    rows: Tensor
    errors: dict[str, Tensor]

    def threshold(self, name: str, bounds: Mapping[str, Tolerance]) -> float:
        """From where on a row is beyond: the bound of the worst row, or that of the median where the median is not within its own."""
        known = self.errors[name][~self.errors[name].isnan()]
        loose = not known.numel() or float(known.median()) <= bounds[name].median
        return bounds[name].worst if loose else bounds[name].median

    def beyond(self, bounds: Mapping[str, Tolerance]) -> Tensor:
        """Bool [U]: rows of which some tensor is beyond its bound."""
        out_U = torch.zeros(len(self.rows), dtype=torch.bool)
        for name, error_U in self.errors.items():
            out_U |= error_U > self.threshold(name, bounds)
        return out_U

    def worst(self) -> Tensor:
        """The larger distance of each row [U]; 0 where nothing was recorded."""
        both = torch.stack([e.nan_to_num(0.0, posinf=float("inf")) for e in self.errors.values()])
        return both.amax(0)


def run(drafter: Drafter, subject: Subject, view: View = RIGHT, inputs: Inputs | None = None) -> Outputs:
    """Our forward over the request's own rows [M, H]. The request must have inputs."""
    given = inputs if inputs is not None else subject.inputs
    assert given is not None  # callers ask for ``Subject.problem`` first
    out = replay(drafter, given, *seen(subject.scene(drafter.wiring), view))
    return Outputs(out.final_NH[subject.before :], out.state_NH[subject.before :])


def distances(subject: Subject, ours: Outputs) -> Distances:
    """How far the engine is from us in every used row."""
    at = torch.tensor([i for i, _ in subject.used()], dtype=torch.int64)
    errors: dict[str, Tensor] = {}
    for name, mine_MH in zip(TENSORS, (ours.state_NH, ours.final_NH), strict=True):
        theirs_MH = subject.stacked(name)
        if theirs_MH is None:
            continue
        missing_U = theirs_MH[at].isnan().all(1)
        found = torch.full((len(at),), float("inf"), dtype=torch.float64)
        if theirs_MH.shape == mine_MH.shape:
            found = row_errors(theirs_MH[at], mine_MH[at])
        recorded_U = torch.tensor([subject.recorded.forwards[subject.account.rows[i].forward].get(name) is not None for i in at.tolist()])
        errors[name] = found.masked_fill(missing_U & ~recorded_U, float("nan"))
    return Distances(at, errors)


def apart(a: Outputs, b: Outputs, at: Tensor) -> dict[str, Tensor]:
    """Distances of two forwards of ours, per tensor and used row."""
    return {"state_out": row_errors(a.state_NH[at], b.state_NH[at]), "final_normed": row_errors(a.final_NH[at], b.final_NH[at])}
