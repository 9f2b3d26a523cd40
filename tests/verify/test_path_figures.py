"""The inference path's figures against the training path's: what is a loss, and what is rounding at near ties."""

from __future__ import annotations

import pytest

from contract.findings import Status
from eagle3_contract.verify.acceptance import Acceptance
from eagle3_contract.verify.figures import TIES, PathFigures, path_figures_checks
from eagle3_contract.verify.metrics import StepCounts

ROWS = 151


def path(right: list[int], accepted: list[int]) -> PathFigures:
    figures = PathFigures(steps=1, drafts=1)
    for number, (r, a) in enumerate(zip(right, accepted, strict=True)):
        figures.take(f"s{number}", Acceptance(rounds=ROWS, accepted=a), StepCounts((r,), (ROWS,)))
    return figures


def statuses(before: list[int], after: list[int]) -> dict[str, Status]:
    return {c.rule: c.status for c in path_figures_checks(path(before, before), path(after, after))}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([80], [79]),
        ([80] * 8, [79, 80] * 4),
        ([80, 70], [80 - TIES + 2, 69]),
        ([80, 70], [80, 70]),
        ([80, 70], [100, 90]),
    ],
    ids=["one row of one sample", "one row of some samples", "just below", "the same", "better"],
)
def test_near_ties_are_no_loss(before: list[int], after: list[int]) -> None:
    assert statuses(before, after) == {"accuracy.inference": Status.PASSED, "acceptance.inference": Status.PASSED}


@pytest.mark.parametrize(("before", "after"), [([80], [80 - TIES]), ([80] * 8, [79] * 8), ([80, 70], [60, 52])])
def test_a_loss_is_found(before: list[int], after: list[int]) -> None:
    assert statuses(before, after) == {"accuracy.inference": Status.FAILED, "acceptance.inference": Status.FAILED}
