"""What an engine can feed instead of [0, 2, 15], on the real stream of a real model: each fault is found by its own rule.

The stream is as real ones are: position 0 has some 150 times the median norm and drowns every pooled figure.
Legend: T tokens, G width of the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from verify.scenario import dump, failed, spoil

from contract.files.bundle import open_bundle
from contract.files.torch_tensors import load_tensor
from contract.findings import Check, ExitCode, Status
from contract.reporting import Report
from eagle3_contract.engines.target import Target
from eagle3_contract.model.states import Recipe
from smollm2.assets import DRAFTERS
from smollm2.running import captured, verified

pytestmark = pytest.mark.slow
Tensors = dict[str, Tensor]
RECIPE = DRAFTERS["b"]


@pytest.fixture(scope="module")
def clean(contracts: dict[str, Path], target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of the right states."""
    return captured(target, contracts["b"], RECIPE, tmp_path_factory.mktemp("clean") / "bundle")


def violations(report: Report, rule: str) -> list[Check]:
    """The failed checks of a rule, in a report that says violated."""
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    found = [c for c in report.checks if c.rule == rule and c.status is Status.FAILED]
    assert found, dump(report)
    assert all(c.fix and c.expected is not None and c.actual is not None for c in found), found
    return found


@pytest.mark.parametrize(
    ("recipe", "rule", "words"),
    [
        ((1, 3, 16), "states.off-by-one", "every slot one layer late"),
        ((0, 1, 14), "states.off-by-one", "every slot one layer early"),
        ((0, 15, 2), "states.order", "the same states in another order"),
        ((15, 0, 2), "states.order", "slot 0 carries boundary 15 instead of boundary 0"),
        ((0, 2, 2), "states.duplicate-slot", "boundary 2 more than once"),
        ((0, 2, 16), "states.recipe", "slot 2 carries boundary 16 instead of boundary 15"),
        ((0, 2, 30), "states.recipe", "slot 2 carries boundary 30 instead of boundary 15"),
        ((0, 2, "final_norm"), "states.normed", "final_norm"),
    ],
)
def test_another_recipe(
    contracts: dict[str, Path], target: Target, target_dir: Path, tmp_path: Path, recipe: Recipe, rule: str, words: str
) -> None:
    report = verified(contracts["b"], target_dir, captured(target, contracts["b"], recipe, tmp_path / "bundle"))
    assert any(words in c.message for c in violations(report, rule)), dump(report)


def one_slot(slot: int, change: Callable[[Tensor], Tensor]) -> Callable[[str, Tensors], Tensors]:
    """A change of one slot in every request."""
    return lambda _, tensors: {**tensors, f"slot.{slot}": change(tensors[f"slot.{slot}"])}


def late(x_TG: Tensor) -> Tensor:
    return torch.cat([x_TG[:1], x_TG[:-1]])


def one_row_negated(x_TG: Tensor) -> Tensor:
    return torch.cat([x_TG[:70], -x_TG[70:71], x_TG[71:]])


@pytest.mark.parametrize(
    ("change", "rule", "slot", "words"),
    [
        (one_slot(1, late), "states.shifted", 1, "boundary 2"),
        (one_slot(2, late), "states.shifted", 2, "boundary 15"),
        (one_slot(2, lambda x: torch.cat([x[1:], x[-1:]])), "states.shifted", 2, "boundary 15"),
        (one_slot(0, lambda x: x * 24), "states.scaled", 0, "24"),  # Gemma's multiplier, sqrt(576)
        (one_slot(2, lambda x: x * 0.5), "states.scaled", 2, "0.5"),
        (one_slot(1, torch.zeros_like), "states.empty", 1, "zero"),
        (one_slot(2, one_row_negated), "states.rows", 2, "row 70"),
    ],
)
def test_changed_slot(
    contracts: dict[str, Path],
    target_dir: Path,
    clean: Path,
    tmp_path: Path,
    change: Callable[[str, Tensors], Tensors],
    rule: str,
    slot: int,
    words: str,
) -> None:
    report = verified(contracts["b"], target_dir, spoil(clean, tmp_path / "bundle", change))
    found = violations(report, rule)
    assert {c.where.slot for c in found if c.where is not None} == {slot}
    assert any(words in c.message for c in found), [c.message for c in found]


def test_normed_state_in_place_of_the_raw_one(
    contracts: dict[str, Path], target: Target, target_dir: Path, clean: Path, tmp_path: Path
) -> None:
    """Boundary 15 behind the target's final norm."""
    weight_G = target.stream.final_norm.get_parameter("weight").detach()
    normed = one_slot(2, lambda x: F.rms_norm(x, x.shape[-1:], weight_G, 1e-5))
    report = verified(contracts["b"], target_dir, spoil(clean, tmp_path / "bundle", normed))
    (found,) = violations(report, "states.normed")
    assert "boundary 15" in found.message


@pytest.mark.parametrize(("slot", "least_pooled"), [(1, 0.6), (2, 0.99)])
def test_states_of_another_prompt(
    contracts: dict[str, Path], target_dir: Path, clean: Path, tmp_path: Path, slot: int, least_pooled: float
) -> None:
    """s02's states in a slot of s01: nothing for the pooled cosine of boundary 15, another document row by row."""
    bundle = open_bundle(clean)
    own_TG, other_TG = (load_tensor(bundle.request(id_).tensors[f"slot.{slot}"]) for id_ in ("s01", "s02"))
    pooled = F.cosine_similarity(own_TG.double().flatten(), other_TG.double().flatten(), dim=0)
    assert pooled > least_pooled
    swapped = spoil(clean, tmp_path / "bundle", lambda id_, t: {**t, f"slot.{slot}": other_TG} if id_ == "s01" else t)
    report = verified(contracts["b"], target_dir, swapped)
    (found,) = violations(report, "states.other-sample")
    assert found.where is not None
    assert (found.where.slot, found.where.sample) == (slot, "s01.safetensors")
    assert f"boundary {RECIPE[slot]} of s02.safetensors" in found.message


def test_missing_slot(contracts: dict[str, Path], target: Target, target_dir: Path, tmp_path: Path) -> None:
    report = verified(contracts["b"], target_dir, captured(target, contracts["b"], RECIPE[:2], tmp_path / "bundle"))
    assert "states.slot-count" in failed(report)
    assert report.exit_code is ExitCode.VIOLATED, dump(report)


def test_missing_request(contracts: dict[str, Path], target_dir: Path, clean: Path, tmp_path: Path) -> None:
    report = verified(contracts["b"], target_dir, spoil(clean, tmp_path / "bundle", lambda _, t: t, requests=["s02"]))
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    assert "capture.samples" in failed(report)
