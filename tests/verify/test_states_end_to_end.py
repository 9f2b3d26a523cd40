"""What an engine may feed instead of the trained states: each has its own finding, and the clean twin is kept."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from contract.findings import ExitCode, Status
from eagle3_contract.model.states import Recipe
from verify.scenario import SAMPLES, Scenario, dump, failed, spoil

Tensors = dict[str, Tensor]


def test_clean_capture_is_kept(clean: Scenario, right: Path) -> None:
    report = clean.verify(right)
    assert report.exit_code is ExitCode.KEPT, dump(report)
    assert {"states.recipe", "states.slot", "paths.logits", "samples.listed"} <= {c.rule for c in report.checks if c.status == "passed"}


def test_seed_incident_names_all_slots_and_both_lists(clean: Scenario) -> None:
    report = clean.verify(clean.capture((3, 5, 8), "seed"))
    assert report.exit_code is ExitCode.VIOLATED
    (recipe,) = [c for c in report.checks if c.rule == "states.recipe" and c.status is Status.FAILED]
    assert (recipe.expected, recipe.actual) == ([0, 3, 5], [3, 5, 8])
    for words in ("[0, 3, 5]", "[3, 5, 8]", "slot 0 carries boundary 3", "slot 1 carries boundary 5", "slot 2 carries boundary 8"):
        assert words in recipe.message
    (step0, *_) = [c for c in report.checks if c.rule == "paths.logits"]
    assert "fc_in of step 0" in step0.message


@pytest.mark.parametrize(
    ("recipe", "rule"),
    [
        ((3, 0, 5), "states.order"),
        ((5, 3, 0), "states.order"),
        ((1, 4, 6), "states.off-by-one"),
        ((0, 2, 4), "states.off-by-one"),
        ((0, 3, 3), "states.duplicate-slot"),
        ((5, 5, 5), "states.duplicate-slot"),
        ((0, 3, 4), "states.recipe"),
        ((0, 3, "final_norm"), "states.normed"),
        ((0, 3), "states.slot-count"),
        ((0, 3, 5, 8), "states.slot-count"),
    ],
)
def test_another_recipe_is_named(clean: Scenario, recipe: Recipe, rule: str) -> None:
    report = clean.verify(clean.capture(recipe, "-".join(map(str, recipe))))
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    assert rule in failed(report), dump(report)


def slot(index: int, change: Callable[[Tensor], Tensor]) -> Callable[[str, Tensors], Tensors]:
    return lambda _, tensors: {**tensors, f"slot.{index}": change(tensors[f"slot.{index}"])}


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)


@pytest.mark.parametrize(
    ("change", "rule", "words"),
    [
        (slot(1, lambda x: torch.roll(x, 1, 0)), "states.shifted", "boundary 3"),
        (slot(0, lambda x: torch.cat([x[1:], x[-1:]])), "states.shifted", "boundary 0"),
        (slot(2, lambda x: x * 1.75), "states.scaled", "1.75"),
        (slot(2, rms), "states.normed", "boundary 5"),
        (slot(1, torch.zeros_like), "states.empty", "zero"),
        (slot(1, lambda x: torch.cat([x[:, :16], torch.zeros_like(x[:, 16:])], 1)), "states.partial", "boundary 3"),
        (slot(1, lambda x: x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))]), "states.shifted", "boundary 3"),
        (slot(2, lambda x: torch.cat([x[:9], -x[9:10], x[10:]])), "states.rows", "row 9"),
        (slot(2, lambda x: torch.randn(x.shape, generator=torch.Generator().manual_seed(2))), "states.unexplained", "nothing explains"),
        (slot(0, lambda x: torch.where(torch.arange(len(x))[:, None] == 4, torch.nan, x)), "states.rows", "row 4"),
    ],
)
def test_spoilt_slot_has_its_own_finding(
    clean: Scenario, right: Path, tmp_path: Path, change: Callable[[str, Tensors], Tensors], rule: str, words: str
) -> None:
    report = clean.verify(spoil(right, tmp_path / "spoilt", change))
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    found = [c for c in report.checks if c.rule == rule and c.status is Status.FAILED]
    assert found, dump(report)
    assert any(words in c.message for c in found), [c.message for c in found]
    assert all(c.fix and c.expected is not None for c in found)


def test_states_of_another_prompt_in_one_slot(clean: Scenario, right: Path, tmp_path: Path) -> None:
    """s0 and s1 have one length; s1's states in one slot of s0."""
    from contract.files.bundle import open_bundle
    from contract.files.torch_tensors import load_tensor

    foreign = load_tensor(open_bundle(right).request("r1").tensors["slot.2"])
    report = clean.verify(spoil(right, tmp_path / "mixed", lambda r, t: {**t, "slot.2": foreign} if r == "r0" else t))
    assert report.exit_code is ExitCode.VIOLATED
    (found,) = [c for c in report.checks if c.rule == "states.other-sample"]
    assert "of s1.safetensors" in found.message
    assert found.where is not None
    assert (found.where.slot, found.where.sample) == (2, "s0.safetensors")


def test_tokens_of_another_prompt(clean: Scenario, right: Path, tmp_path: Path) -> None:
    change = lambda r, t: {**t, "input_ids": (t["input_ids"] + 1) % 96} if r == "r2" else t  # noqa: E731
    report = clean.verify(spoil(right, tmp_path / "tokens", change))
    assert report.exit_code is ExitCode.VIOLATED
    assert "capture.prompt" in failed(report)


def test_capture_without_one_sample(clean: Scenario, right: Path, tmp_path: Path) -> None:
    report = clean.verify(spoil(right, tmp_path / "short", lambda r, t: t, requests=["r0", "r2"]))
    assert report.exit_code is ExitCode.VIOLATED
    assert "capture.samples" in failed(report)
    report = clean.verify(spoil(right, tmp_path / "shorter", lambda r, t: t, requests=["r1"]))
    (said,) = [c for c in report.checks if c.rule == "capture.samples" and c.status == "failed"]
    assert "2 samples:" in said.message
    assert isinstance(said.evidence, dict)
    assert len(said.evidence["samples"]) == 2


def test_capture_alone_is_judged_by_its_own_sweep(scenario: Scenario, right: Path) -> None:
    scenario.rewrite(lambda c: c["training"].update(samples={"path": None, "count": 0, "states": [0, 3, 5], "manifest": {}}))
    shutil.rmtree(scenario.samples)
    kept = scenario.verify(right)
    assert kept.exit_code is ExitCode.KEPT, dump(kept)
    wrong = scenario.verify(scenario.capture((3, 5, 8)))
    assert "states.recipe" in failed(wrong), dump(wrong)


def changed_last(scenario: Scenario, name: str, how: Callable[[Tensor], Tensor]) -> None:
    path = scenario.samples / name
    tensors = load_file(path)
    with safe_open(path, "pt") as held:
        metadata = held.metadata()
    tensors["last_hidden_state"] = how(tensors["last_hidden_state"])
    path.unlink()
    save_file(tensors, path, metadata)
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    scenario.rewrite(lambda c: c["training"]["samples"]["manifest"].update({name: digest}))


def test_last_states_are_held_against_the_capture(scenario: Scenario, right: Path) -> None:
    clean = scenario.verify(right)
    assert any(c.rule == "samples.last-state" and "of the capture" in c.message for c in clean.checks), dump(clean)
    assert clean.exit_code is ExitCode.KEPT, dump(clean)
    torch.manual_seed(0)
    changed_last(scenario, SAMPLES[1], lambda x_TG: x_TG * (1 + 0.2 * torch.randn_like(x_TG)))
    report = scenario.verify(right)
    (found,) = [c for c in report.checks if c.rule == "samples.last-state" and c.status is Status.FAILED]
    assert "1 of 3 samples" in found.message
    assert found.where is not None
    assert found.where.sample == SAMPLES[1]


def test_recorded_tokens_are_held_against_the_recorded_final_states(clean: Scenario, right: Path, tmp_path: Path) -> None:
    def shifted(_: str, tensors: Tensors) -> Tensors:
        return {**tensors, "greedy": tensors["greedy"].roll(1)}

    def one_tie(_: str, tensors: Tensors) -> Tensors:
        greedy_T = tensors["greedy"].clone()
        greedy_T[4] = (greedy_T[4] + 1) % 96
        return {**tensors, "greedy": greedy_T}

    assert "capture.greedy" not in failed(clean.verify(spoil(right, tmp_path / "tie", one_tie)))
    assert "capture.greedy" in failed(clean.verify(spoil(right, tmp_path / "shifted", shifted)))


def test_a_branch_that_the_slots_are_not(scenario: Scenario, right: Path) -> None:
    scenario.rewrite(lambda c: c["hidden_states"].update(point="branch_only"))
    assert "states.point" in failed(scenario.verify(right))
    scenario.rewrite(lambda c: c["hidden_states"].update(point="before_injected_vision"))
    assert "states.point" not in failed(scenario.verify(right))
