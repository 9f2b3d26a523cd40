"""A capture without a sweep and without samples: a slot whose state nothing can show is undecided, and what is no state is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from contract.findings import ExitCode, Status
from verify.scenario import Scenario, dump, failed, spoil

Tensors = dict[str, Tensor]


@pytest.fixture
def alone(scenario: Scenario) -> Scenario:
    """The contract promises no samples, and there are none."""
    scenario.rewrite(lambda c: c["training"].update(samples={"path": None, "count": 0, "states": [0, 3, 5], "manifest": {}}))
    shutil.rmtree(scenario.samples)
    return scenario


def unswept(_request: str, tensors: Tensors) -> Tensors:
    return {name: x for name, x in tensors.items() if not name.startswith("boundary.")}


def test_right_states_are_undecided(alone: Scenario, right: Path, tmp_path: Path) -> None:
    report = alone.verify(spoil(right, tmp_path / "unswept", unswept))
    assert report.exit_code is ExitCode.UNKNOWN, dump(report)
    assert failed(report) == set(), dump(report)
    open_ = [c for c in report.checks if c.rule == "states.unexplained" and c.status is Status.UNKNOWN]
    assert {c.where.slot for c in open_ if c.where} == {0, 1, 2}
    assert all(c.required and "is not at hand, recorded is final_norm" in c.message and "--samples" in (c.fix or "") for c in open_)


def test_states_of_one_recorded_boundary_are_told(alone: Scenario, right: Path, tmp_path: Path) -> None:
    """What is at hand is compared as ever: only the other slots are open."""
    report = alone.verify(spoil(right, tmp_path / "one", lambda r, t: {**unswept(r, t), "boundary.3": t["boundary.3"]}))
    assert report.exit_code is ExitCode.UNKNOWN, dump(report)
    assert {c.where.slot for c in report.checks if c.rule == "states.slot" and c.status is Status.PASSED and c.where} == {1}


def noise(x: Tensor) -> Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda t: {"slot.1": torch.zeros_like(t["slot.1"])}, "states.empty"),
        (lambda t: {"slot.1": t["slot.1"][:1].expand_as(t["slot.1"]).clone()}, "states.empty"),
        (lambda t: {"slot.1": t["slot.2"]}, "states.duplicate-slot"),
        (lambda t: {"slot.2": t["final_norm"]}, "states.normed"),
        (lambda t: {"slot.0": torch.where(torch.arange(len(t["slot.0"]))[:, None] == 4, torch.nan, t["slot.0"])}, "states.unexplained"),
        (lambda t: {"slot.0": torch.where(torch.arange(len(t["slot.0"]))[:, None] < 9, 0.0, t["slot.0"])}, "states.unexplained"),
        (lambda t: {"slot.1": noise(t["slot.1"]), "boundary.3": t["boundary.3"]}, "states.unexplained"),
    ],
)
def test_what_is_no_such_state_is_found(
    alone: Scenario, right: Path, tmp_path: Path, change: Callable[[Tensors], Tensors], rule: str
) -> None:
    report = alone.verify(spoil(right, tmp_path / "spoilt", lambda r, t: {**unswept(r, t), **change(t)}))
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    assert rule in failed(report), dump(report)
