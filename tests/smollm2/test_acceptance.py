"""What the right and the other drafter's recipe are worth, teacher forced and in a real speculative loop, which must stay lossless.

Legend: T tokens, K states, C = K * width.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from contract.files.checkpoint import Checkpoint
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.engines.target import Target, load_target
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.states import Recipe
from eagle3_contract.verify.acceptance import Acceptance, chain
from smollm2.assets import DRAFTERS, STORED, texts
from smollm2.speculate import Speculated, speculate

pytestmark = pytest.mark.slow
OTHER = {"a": "b", "b": "a"}
STEPS = 3
NEW_TOKENS = 64


@dataclass(frozen=True)
class Answer:
    """A greedy answer with the target's states of all stored boundaries [T, G] and its argmax after each token [T]."""

    input_ids: Tensor
    prompt_tokens: int
    states: dict[object, Tensor]
    greedy: Tensor


@pytest.fixture(scope="module")
def answers(target: Target) -> list[Answer]:
    found = []
    for text in texts():
        forward = target.forward(text.input_ids, set(STORED))
        found.append(Answer(torch.tensor(text.input_ids), text.prompt_tokens, dict(forward.states), forward.greedy))
    return found


@pytest.fixture(scope="module")
def drafters(contracts: dict[str, Path], target_dir: Path) -> dict[str, Drafter]:
    """In float32."""
    target = CheckpointSource(Checkpoint.open(target_dir))
    return {
        name: Drafter(resolve(load_contract(spec).contract).wiring, CheckpointSource(Checkpoint.open(spec.parent)), target_source=target)
        for name, spec in contracts.items()
    }


@torch.no_grad()
def measured(drafter: Drafter, answers: list[Answer], recipe: Recipe) -> tuple[list[float], Acceptance]:
    """Top-1 per step over the answers' rows, and accepted drafts, as tests/smollm2/README.md quotes them."""
    right, rows, accepted = [0] * STEPS, 0, Acceptance()
    for text in answers:
        states_TC = torch.cat([text.states[s].float() for s in recipe], dim=-1)
        output = teacher_forced(drafter, text.input_ids, states_TC, steps=STEPS)
        drafts_ST = [drafter.target_ids[logits.argmax(-1)] for logits in output.logits_steps]
        first, end = text.prompt_tokens - 1, len(text.input_ids) - 1 - STEPS
        for step, drafts_T in enumerate(drafts_ST):
            right[step] += int((drafts_T[first:end] == text.greedy[first + 1 + step : end + 1 + step]).sum())
        rows += end - first
        accepted += chain(text.input_ids.tolist(), [d.tolist() for d in drafts_ST], start=first)
    return [r / rows for r in right], accepted


@pytest.mark.parametrize("name", ["a", "b"])
def test_other_recipe_costs_more_than_half(name: str, drafters: dict[str, Drafter], answers: list[Answer]) -> None:
    top1, accepted = measured(drafters[name], answers, DRAFTERS[name])
    other_top1, other_accepted = measured(drafters[name], answers, DRAFTERS[OTHER[name]])
    assert top1[0] > 0.4
    assert accepted.length > 1.6
    assert 1.0 < other_accepted.length < 1 + (accepted.length - 1) / 2
    assert all(wrong < 0.6 * right for right, wrong in zip(top1, other_top1, strict=True))


def test_small_faults_cost_little(drafters: dict[str, Drafter], answers: list[Answer]) -> None:
    """Why acceptance is no detector: two slots swapped keep most of it."""
    _, right = measured(drafters["b"], answers, (0, 2, 15))
    _, swapped = measured(drafters["b"], answers, (2, 0, 15))
    assert swapped.length > 1 + 0.7 * (right.length - 1)


@pytest.fixture(scope="module")
def exact(target_dir: Path) -> Target:
    """In float32, so that the verification of four tokens and the decoding of one agree on near ties."""
    return load_target(target_dir, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def own(exact: Target) -> list[list[int]]:
    """The target's own greedy tokens, without a drafter."""
    return [exact.continuation(t.input_ids[: t.prompt_tokens], NEW_TOKENS) for t in texts()]


@pytest.mark.parametrize("name", ["a", "b"])
def test_speculation_gives_the_targets_own_tokens(name: str, drafters: dict[str, Drafter], exact: Target, own: list[list[int]]) -> None:
    runs: list[Speculated] = []
    for text, tokens in zip(texts(), own, strict=True):
        run = speculate(exact, drafters[name], DRAFTERS[name], text.input_ids[: text.prompt_tokens], NEW_TOKENS)
        assert run.tokens == tokens
        assert run.accepted > 0
        runs.append(run)
    assert sum(run.accepted for run in runs) > 100


def test_wrong_states_lose_acceptance_and_no_token(drafters: dict[str, Drafter], exact: Target, own: list[list[int]]) -> None:
    """The incident's symptom: the text is right, only the acceptance is gone."""
    text = texts()[0]
    prompt = text.input_ids[: text.prompt_tokens]
    right = speculate(exact, drafters["b"], DRAFTERS["b"], prompt, NEW_TOKENS)
    wrong = speculate(exact, drafters["b"], DRAFTERS["a"], prompt, NEW_TOKENS)
    assert wrong.tokens == right.tokens == own[0]
    assert wrong.accepted / wrong.rounds < 0.6 * right.accepted / right.rounds
