"""The two modes agree: what a KV cache computes is what the teacher-forced pass computes, where both are fed the same tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import InputRejected, UsageError
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import (
    ConcatOrder,
    Feedback,
    LaterLayerNorm,
    NormBeforeFc,
    Rollout,
    Rope,
    StepPositions,
    Wiring,
)

from .build import MLA, SMALL, drafter_for, inputs_for, small
from .compare import expected_steps, largest_miss, oracle, run, same_rows

ROUNDING = 30.0
"""In units of the tolerance: wirings with few norms amplify float32 rounding by that much; a wrong wiring misses by more than 100."""
ROPES = [
    Rope(),
    Rope(theta=500.0, interleaved=True),
    Rope(rotary_dim=4),
    Rope(type="linear", scaling={"factor": 2.0}),
    Rope(type="yarn", scaling={"factor": 8.0, "original_max_position_embeddings": 64}),
    Rope(type="dynamic", scaling={"factor": 2.0}, table_length=64),
]


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    mla = draw(st.booleans())
    final_norm = draw(st.booleans())
    return replace(
        MLA if mla else SMALL,
        states=draw(st.integers(1, 4)),
        layers=draw(st.integers(1, 3)),
        target_hidden_size=draw(st.sampled_from([16, 24])),
        rope=replace(draw(st.sampled_from(ROPES)), rotary_dim=None) if mla else draw(st.sampled_from(ROPES)),
        norms_before_fc=draw(st.sampled_from([(), (NormBeforeFc.INPUT_NORM,), (NormBeforeFc.FC_NORM,), tuple(NormBeforeFc)])),
        hidden_norm=draw(st.booleans()),
        double_norm=draw(st.booleans()),
        norm_before_residual=draw(st.booleans()),
        later_layer_norm=draw(st.sampled_from(LaterLayerNorm)),
        final_norm=final_norm,
        feedback=draw(st.sampled_from(Feedback)) if final_norm else Feedback.PRE_NORM,
        concat_order=draw(st.sampled_from(ConcatOrder)),
        window=draw(st.none() | st.integers(1, 6)),
        window_follows_steps=draw(st.booleans()),
        qk_norm=draw(st.booleans()) and not mla,
        qkv_bias=draw(st.booleans()),
        o_bias=draw(st.booleans()),
        step_positions=draw(st.sampled_from(StepPositions)),
        positions_start=draw(st.integers(0, 3)),
        logit_scale=draw(st.sampled_from([1.0, 0.5])),
    )


@settings(max_examples=30, deadline=None)
@given(wiring=wirings(), seed=st.integers(0, 5), rollout=st.sampled_from(Rollout))
def test_any_wiring_agrees_with_the_oracle(wiring: Wiring, seed: int, rollout: Rollout) -> None:
    inputs = inputs_for(wiring, tokens=7, seed=seed)
    expected = expected_steps(oracle(wiring, inputs, rollout=rollout), 6, 3)
    got = run(wiring, inputs, rollout=rollout).logits_steps
    assert same_rows(got, expected)
    assert largest_miss(got, expected) <= ROUNDING


@settings(max_examples=25, deadline=None)
@given(wiring=wirings(), seed=st.integers(0, 5), chunks=st.lists(st.integers(1, 4), min_size=2, max_size=3))
def test_cache_agrees_with_the_whole_sequence(wiring: Wiring, seed: int, chunks: list[int]) -> None:
    """Prefill and commits in any portions, a round of drafting after each: the speculative rows leave no trace."""
    tokens = sum(chunks) + 4
    inputs = inputs_for(wiring, tokens=tokens, seed=seed)
    drafter = drafter_for(wiring)
    teacher = teacher_forced(drafter, inputs.ids, inputs.states, steps=4)
    greedy = teacher_forced(drafter, inputs.ids, inputs.states, steps=4, rollout=Rollout.OWN_ARGMAX)
    request = IncrementalDrafter(drafter)
    row = 0
    for i, chunk in enumerate(chunks):
        if i == 0:
            request.prefill(inputs.ids[: chunk + 1], inputs.states[:chunk])
        else:
            request.commit(inputs.ids[row + 1 : row + chunk + 1], inputs.states[row : row + chunk])
        row += chunk
        assert request.rows == row
        t = row - 1
        own = request.draft(4)
        assert largest_miss(list(own.logits), [step[t] for step in greedy.logits_steps]) <= ROUNDING
        fed = request.draft(4, fed_tokens=inputs.ids[t + 2 : t + 5])
        assert largest_miss(list(fed.logits), [step[t] for step in teacher.logits_steps]) <= ROUNDING
        assert own.tokens.tolist()[:3] == [step[t].item() for step in greedy.fed_ids_steps[1:]]


def test_proposals_are_target_tokens() -> None:
    inputs = inputs_for(SMALL)
    request = IncrementalDrafter(drafter_for(SMALL))
    request.prefill(inputs.ids, inputs.states[:-1])
    drafted = request.draft(3)
    drafter = drafter_for(SMALL)
    assert torch.equal(drafted.draft_ids, drafted.logits.argmax(dim=-1))
    assert torch.equal(drafted.tokens, drafter.target_ids[drafted.draft_ids])
    assert not torch.equal(drafted.tokens, drafted.draft_ids)


def test_drafting_does_not_change_the_request() -> None:
    inputs = inputs_for(SMALL)
    request = IncrementalDrafter(drafter_for(SMALL))
    request.prefill(inputs.ids[:6], inputs.states[:5])
    first = request.draft(5)
    assert torch.equal(request.draft(5).logits, first.logits)
    assert request.rows == 5


def test_prefill_starts_over() -> None:
    inputs = inputs_for(SMALL)
    request = IncrementalDrafter(drafter_for(SMALL))
    request.prefill(inputs.ids[:9], inputs.states[:8])
    request.prefill(inputs.ids[:6], inputs.states[:5])
    again = IncrementalDrafter(drafter_for(SMALL))
    again.prefill(inputs.ids[:6], inputs.states[:5])
    assert torch.equal(request.draft(3).logits, again.draft(3).logits)


def test_stale_speculative_rows_would_show() -> None:
    """The test of the tests: committing states other than the true ones changes what is drafted next."""
    inputs = inputs_for(SMALL)
    right, wrong = (IncrementalDrafter(drafter_for(SMALL)) for _ in range(2))
    for request, states in ((right, inputs.states), (wrong, inputs.states.roll(1, dims=0))):
        request.prefill(inputs.ids[:6], inputs.states[:5])
        request.commit(inputs.ids[6:8], states[5:7])
    assert largest_miss([right.draft(3).logits], [wrong.draft(3).logits]) > 100.0


@pytest.mark.parametrize(
    ("ids", "states"),
    [
        (torch.zeros(5, dtype=torch.int64), torch.zeros(5, 48)),
        (torch.zeros(6, dtype=torch.int64), torch.zeros(5, 47)),
        (torch.zeros(1, dtype=torch.int64), torch.zeros(0, 48)),
        (torch.zeros(6, dtype=torch.int32), torch.zeros(5, 48)),
        (torch.zeros(6, dtype=torch.int64), torch.zeros(5, 48, dtype=torch.int64)),
        (torch.zeros(6, 1, dtype=torch.int64), torch.zeros(5, 48)),
    ],
)
def test_prefill_refuses_what_does_not_fit(ids: torch.Tensor, states: torch.Tensor) -> None:
    with pytest.raises(InputRejected) as caught:
        IncrementalDrafter(drafter_for(SMALL)).prefill(ids, states)
    assert caught.value.rule == "drafter.input-shape"


def test_draft_refuses_what_makes_no_sense() -> None:
    inputs = inputs_for(SMALL)
    request = IncrementalDrafter(drafter_for(SMALL))
    with pytest.raises(UsageError, match="before prefill"):
        request.draft(1)
    request.prefill(inputs.ids[:6], inputs.states[:5])
    with pytest.raises(UsageError, match="0 tokens"):
        request.draft(0)
    with pytest.raises(InputRejected, match="fed_tokens"):
        request.draft(3, fed_tokens=torch.zeros(3, dtype=torch.int64))


def test_a_map_that_leads_outside_the_target_is_refused() -> None:
    """An absolute map read as offsets: IndexError or garbage in the engines, an error by name here."""
    wiring = small(vocab_map=VocabMap.OFFSET)
    ids = torch.arange(16, 40)
    with pytest.raises(InputRejected) as caught:
        _ = drafter_for(wiring, {"d2t": ids}).target_ids
    assert caught.value.rule == "drafter.vocab-map"
    assert torch.equal(drafter_for(small(vocab_map=VocabMap.ABSOLUTE), {"d2t": ids}).target_ids, ids)
