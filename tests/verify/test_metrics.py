"""Every trainer's accuracy, from one input that all trainers' own code was fed (their six figures are the reference)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from contract.errors import UserError
from eagle3_contract.verify.best import Best
from eagle3_contract.verify.metrics import Accuracy, Definition, StepCounts, TargetTokens, count_steps, looked_at

DATA = Path(__file__).parent / "data"
REFERENCE = {
    "official EAGLE / AngelSlim (hit & in-vocab) / mask.sum": (Definition.EAGLE, Definition.ANGELSLIM),
    "SpecForge full-vocab hit / mask.sum": (Definition.SPECFORGE,),
    "TorchSpec hit / in-vocab positions only": (Definition.TORCHSPEC,),
    "speculators full_acc (all steps so far right, in-draft argmax)": (Definition.SPECULATORS_FULL,),
    "speculators cond_acc (given the previous steps right)": (Definition.SPECULATORS_COND,),
    "ModelOpt hit (in-draft argmax) / mask.sum, each step alone": (Definition.MODELOPT,),
}


def same_input() -> tuple[list[Best], torch.Tensor, TargetTokens, torch.Tensor]:
    data = load_file(DATA / "metrics_same_input.safetensors")
    targets_D = torch.arange(len(data["d2t"])) + data["d2t"]
    best = [Best.of(data[f"draft_logits_step{s}"][0]) for s in range(3)]
    return best, targets_D, TargetTokens.from_logits(data["full_target_logits"][0], targets_D), data["loss_mask"][0]


CASES = [(name, d) for name, definitions in REFERENCE.items() for d in definitions]


@pytest.mark.parametrize(("name", "definition"), CASES, ids=[d.value for _, d in CASES])
def test_each_definition_gives_its_trainers_figures(name: str, definition: Definition) -> None:
    expected = json.loads((DATA / "metrics_same_input.json").read_text())[name]
    found = count_steps(definition, *same_input()).accuracy
    assert found == pytest.approx(expected, abs=1e-6)


def test_every_definition_is_compared_with_a_reference() -> None:
    assert {d for _, d in CASES} == set(Definition)


def tiny(mask: list[int], hits: list[list[int]]) -> tuple[list[Best], torch.Tensor, TargetTokens, torch.Tensor]:
    """Draft vocabulary {0, 1}, target vocabulary 3; the target always says 1; row t of step s is right where ``hits`` is 1."""
    targets_D = torch.tensor([0, 1])
    tokens = len(mask)
    full_T = torch.ones(tokens, dtype=torch.int64)
    best = [Best.of(torch.tensor([[1.0 - h, float(h)] for h in row])) for row in hits]
    return best, targets_D, TargetTokens(full_T, full_T), torch.tensor(mask)


def test_masks_are_aligned_as_each_trainer_does() -> None:
    # T = 4 and only row 1 of step 0 is right: mask[1] counts it for EAGLE's family, mask[2] for speculators and ModelOpt.
    for mask, eagle, modelopt in (([0, 1, 0, 0], 1, 0), ([0, 0, 1, 0], 0, 1)):
        case = tiny(mask, [[0, 1, 0]])
        assert count_steps(Definition.EAGLE, *case).right == (eagle,)
        assert count_steps(Definition.TORCHSPEC, *case).right == (eagle,)
        assert count_steps(Definition.MODELOPT, *case).right == (modelopt,)
        assert count_steps(Definition.SPECULATORS_FULL, *case).right == (modelopt,)


def test_the_last_token_counts_only_where_the_trainer_counts_it() -> None:
    case = tiny([1, 1, 1, 1], [[1, 1, 1], [1, 1, 1]])
    assert count_steps(Definition.EAGLE, *case) == StepCounts((3, 2), (4, 3))
    assert count_steps(Definition.SPECFORGE, *case) == StepCounts((3, 2), (3, 2))
    assert count_steps(Definition.MODELOPT, *case) == StepCounts((3, 2), (3, 2))


def test_a_target_outside_the_draft_vocabulary_is_a_miss_or_is_left_out() -> None:
    best, targets_D, _, mask = tiny([1, 1, 1, 1], [[1, 1, 1]])
    target = TargetTokens(torch.tensor([1, 2, 1, 1]), torch.ones(4, dtype=torch.int64))
    assert count_steps(Definition.SPECFORGE, best, targets_D, target, mask) == StepCounts((2,), (3,))
    assert count_steps(Definition.TORCHSPEC, best, targets_D, target, mask) == StepCounts((2,), (2,))
    assert count_steps(Definition.MODELOPT, best, targets_D, target, mask) == StepCounts((3,), (3,))


def test_conditional_accuracy_counts_rows_right_so_far() -> None:
    case = tiny([1, 1, 1, 1, 1], [[1, 0, 1, 1], [1, 1, 0, 9]])
    assert count_steps(Definition.SPECULATORS_FULL, *case) == StepCounts((3, 1), (4, 3))
    assert count_steps(Definition.SPECULATORS_COND, *case) == StepCounts((3, 1), (4, 2))


def test_a_nan_row_is_never_right() -> None:
    _, targets_D, target, mask = tiny([1, 1, 1], [[1, 1]])
    best = [Best.of(torch.tensor([[math.nan, 1.0], [0.0, 1.0]]))]
    assert count_steps(Definition.SPECFORGE, best, targets_D, target, mask) == StepCounts((1,), (2,))


def test_a_step_beyond_the_sample_counts_nothing() -> None:
    case = tiny([1, 1], [[1], [1], [1]])
    assert count_steps(Definition.MODELOPT, *case) == StepCounts((1, 0, 0), (1, 0, 0))


def test_what_a_definition_needs_and_lacks_is_named() -> None:
    best, targets_D, target, mask = tiny([1, 1], [[1]])
    with pytest.raises(UserError) as missing:
        count_steps(Definition.EAGLE, best, targets_D, target, None)
    assert missing.value.rule == "metrics.loss-mask-missing"
    argmax_only = TargetTokens(target.full)
    assert count_steps(Definition.EAGLE, best, targets_D, argmax_only, mask).right == (1,)
    with pytest.raises(UserError) as missing:
        count_steps(Definition.MODELOPT, best, targets_D, argmax_only, mask)
    assert missing.value.rule == "metrics.target-logits-missing"


def test_lengths_that_disagree_are_refused() -> None:
    best, targets_D, target, mask = tiny([1, 1, 1], [[1, 1]])
    with pytest.raises(ValueError, match="mask of 2 entries"):
        count_steps(Definition.EAGLE, best, targets_D, target, mask[:2])
    with pytest.raises(ValueError, match="1 rows; 2 are due"):
        count_steps(Definition.EAGLE, [best[0].rows(slice(1))], targets_D, target, mask)


counts = st.lists(st.integers(0, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=12)


@given(counts, st.integers(0, 12))
def test_merging_in_any_split_gives_the_same_figures(samples: list[tuple[int, int]], cut: int) -> None:
    whole, left, right = Accuracy(1), Accuracy(1), Accuracy(1)
    for index, (r, n) in enumerate(samples):
        whole.add(StepCounts((r,), (n,)))
        (left if index < cut else right).add(StepCounts((r,), (n,)))
    right.merge(left)
    assert right.counts == whole.counts
    assert right.accuracy == whole.accuracy
    assert right.standard_error == whole.standard_error


@given(counts)
def test_the_standard_error_is_the_cluster_formula(samples: list[tuple[int, int]]) -> None:
    pooled = Accuracy(1)
    for r, n in samples:
        pooled.add(StepCounts((r,), (n,)))
    rows = sum(n for _, n in samples)
    (error,) = pooled.standard_error
    if not rows:
        assert error is None
        return
    p = sum(r for r, _ in samples) / rows
    if len(samples) > 1:
        m = len(samples)
        expected = math.sqrt(m / (m - 1) * sum((r - p * n) ** 2 for r, n in samples)) / rows
    else:
        expected = math.sqrt(p * (1 - p) / rows)
    assert error == pytest.approx(expected, abs=1e-9)


@given(st.data(), st.sampled_from(list(Definition)), st.integers(1, 4), st.integers(2, 9))
def test_no_definition_looks_at_a_target_token_that_is_not_asked_for(
    data: st.DataObject, definition: Definition, steps: int, tokens: int
) -> None:
    bits = st.integers(0, 1)
    mask = data.draw(st.lists(bits, min_size=tokens, max_size=tokens))
    hits = data.draw(st.lists(st.lists(bits, min_size=tokens - 1, max_size=tokens - 1), min_size=steps, max_size=steps))
    best, targets_D, whole, mask_T = tiny(mask, hits)
    wanted_T = looked_at(mask_T, steps)
    assert bool(wanted_T[mask_T.bool()].all())
    part_T = whole.full.where(wanted_T, torch.tensor(-1))
    assert count_steps(definition, best, targets_D, TargetTokens(part_T, part_T), mask_T) == count_steps(
        definition, best, targets_D, whole, mask_T
    )


def test_a_prompt_is_not_asked_for() -> None:
    assert looked_at(torch.tensor([0, 0, 0, 1, 0, 0, 0, 0]), 3).tolist() == [False] * 3 + [True] * 4 + [False]
