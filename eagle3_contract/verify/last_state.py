"""The state that the training target is computed from: is it the one that the contract says, and is it normed or not.

A trainer that norms a state which was stored behind the final norm, or leaves out the norm of one that was stored before it, learns other
targets than the model gives; accuracy falls by some points and nothing else shows it (speculators 0.3.0 custom_worker: the stored state is
normed, and the trainer norms again).

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import torch
from torch import Tensor

from contract.findings import Check, Where
from contract.limits import Limits
from contract.statement import fact
from contract.words import first_few
from eagle3_contract.model.spec import TargetState
from eagle3_contract.model.states import FINAL_NORM, State, state_name
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify import rules
from eagle3_contract.verify.capture_set import Captured
from eagle3_contract.verify.divergence import row_errors
from eagle3_contract.verify.sample_set import SampleSet
from eagle3_contract.verify.states import Bounds

LOOKED_AT: Final = 4
"""Samples whose last state is looked at without a capture: what writes them writes all of them alike."""
UNIT: Final = 2.0**-6
"""How far the root mean square of a normed row, divided by the norm's weight, may be from 1. A cast to bfloat16 moves it by 1e-3; states
before the norm are 2 to 10 and more."""
MOST: Final = 0.9
"""Share of rows that decides: so many are of length 1, or as many are not."""


def last_state_checks(samples: SampleSet, stated: TargetState, norm_G: Tensor, limits: Limits) -> Iterator[Check]:
    """Whether the last states of the first samples are normed as the contract says; at most one check.

    Behind the final norm a row is a vector of root mean square 1 times the norm's weight. None is made where the samples store no last
    state, the contract does not say, or the weight has zeros to divide by.
    """
    normed = fact(stated.normed)
    if not normed.known or not bool((norm_G != 0).all()):
        return
    told = [s for s in islice(samples.read(limits=limits), LOOKED_AT) if isinstance(s, TrainingSample) and s.last_TG is not None]
    for sample in told:
        share = _share_of_unit_rows(sample, norm_G)
        if share is None or 1 - MOST < share < MOST or (share >= MOST) is bool(normed.value):
            continue
        found, said = ("normed", "not normed") if share >= MOST else ("not normed", "normed")
        yield rules.LAST_STATE.failed(
            f"{sample.name}: the last state is {found} ({share:.0%} of its rows are as long as behind the final norm), the contract "
            f"says it is {said}",
            expected=said,
            actual=found,
            where=Where(file=sample.file, sample=sample.name),
        )
        return
    if told:
        state = "normed" if normed.value else "not normed"
        yield rules.LAST_STATE.passed(f"the last states of {len(told)} samples are {state}, as the contract says")


def _share_of_unit_rows(sample: TrainingSample, norm_G: Tensor) -> float | None:
    """Share of the rows that are 1 long when divided by the norm's weight; None without a row. Padding is no row."""
    assert sample.last_TG is not None
    rows_LG = sample.last_TG.float()
    if rows_LG.shape[1] != len(norm_G):
        return None
    rows_LG = rows_LG[(rows_LG != 0).any(1)]
    if not len(rows_LG):
        return None
    size_L = (rows_LG / norm_G.float()).square().mean(1).sqrt()
    return float(((size_L - 1).abs() <= UNIT).float().mean())


@dataclass(slots=True)
class CapturedLast:
    """The samples' last states against the same state of a capture of the same tokens."""

    stated: TargetState
    bounds: Bounds
    compared: int = 0
    other: list[tuple[str, float, float]] = field(default_factory=list)

    @property
    def state(self) -> State | None:
        """The state that the contract says is the last one; None if it does not say."""
        normed, boundary = fact(self.stated.normed), fact(self.stated.boundary)
        if not normed.known or (not normed.value and not boundary.known):
            return None
        return FINAL_NORM if normed.value else int(boundary.value)

    def add(self, sample: TrainingSample, captured: Captured) -> None:
        """Compare one sample; nothing where either side lacks the state."""
        state = self.state
        if sample.last_TG is None or state is None or state not in captured.states:
            return
        want_TG = captured.load(captured.states[state])
        self.compared += 1
        if want_TG.shape != sample.last_TG.shape:
            self.other.append((sample.name, float("inf"), float("inf")))
            return
        found = row_errors(sample.last_TG.to(torch.float32), want_TG.to(torch.float32))[0]
        if not self.bounds.of_state(state).allows(found.median, found.worst, found.worst_sink):
            self.other.append((sample.name, found.median, found.worst))

    def checks(self) -> Iterator[Check]:
        """One check over all samples; none if none was compared."""
        if not self.compared or self.state is None:
            return
        name = state_name(self.state)
        if not self.other:
            yield rules.LAST_STATE.passed(f"the last states of {self.compared} samples are {name} of the capture")
            return
        sample, median, worst = max(self.other, key=lambda found: found[1])
        yield rules.LAST_STATE.failed(
            f"the last states of {len(self.other)} of {self.compared} samples are not {name} of the capture of the same tokens: "
            f"{first_few([n for n, _, _ in self.other])} (median error of a row {median:.2g}, worst {worst:.2g} in {sample})",
            expected=name,
            where=Where(sample=sample),
            evidence={"samples": {n: {"median": m, "worst": w} for n, m, w in self.other}},
        )
