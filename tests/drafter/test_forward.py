"""Documents, positions, taps, liveness: what a row may depend on, and what it may not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contract.errors import InputRejected, UsageError
from eagle3_contract.drafter.forward import draft_steps, teacher_forced
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.model.wiring import Feedback, Rollout

from .build import SMALL, drafter_for, inputs_for, small
from .compare import largest_miss, same_rows

STEPS = 3


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), padding=st.integers(0, 2), window=st.none() | st.integers(1, 3))
def test_packed_documents_are_the_documents_alone(lengths: list[int], padding: int, window: int | None) -> None:
    wiring = small(window=window)
    drafter = drafter_for(wiring)
    alone, ids, states, docs = [], [], [], []
    for i, tokens in enumerate(lengths):
        one = inputs_for(wiring, tokens=tokens, seed=i)
        alone.append(teacher_forced(drafter, one.ids, one.states, steps=STEPS).logits_steps)
        filler = torch.full((padding,), -1)
        ids += [one.ids, filler]
        states += [one.states, torch.full((padding, 48), float("nan"))]
        docs += [torch.full((tokens,), 10 - i), filler]
    packed = teacher_forced(drafter, torch.cat(ids), torch.cat(states), document_ids_T=torch.cat(docs), steps=STEPS).logits_steps
    at = 0
    for tokens, expected in zip(lengths, alone, strict=True):
        got = [logits[at : at + tokens - 1] for logits in packed]
        assert same_rows(got, expected)
        assert largest_miss(got, expected) <= 1.0
        assert all(bool(logits[at + tokens - 1 : at + tokens + padding].isnan().all()) for logits in packed)
        at += tokens + padding


def test_rows_without_a_token_are_nan_and_no_others() -> None:
    inputs = inputs_for(SMALL, tokens=6)
    out = teacher_forced(drafter_for(SMALL), inputs.ids, inputs.states, steps=8)
    for step, (logits, fed) in enumerate(zip(out.logits_steps, out.fed_ids_steps, strict=True)):
        assert logits.shape == (5, 24)
        alive = [t <= 6 - 2 - step for t in range(5)]
        assert (~logits.isnan().any(dim=1)).tolist() == alive
        assert fed.tolist() == [int(inputs.ids[t + 1 + step]) if a else -1 for t, a in enumerate(alive)]


def test_a_row_depends_on_nothing_after_its_own_tokens() -> None:
    """Changing state t+1 or token t+2+s leaves row t of step s as it was."""
    inputs = inputs_for(SMALL)
    before = teacher_forced(drafter_for(SMALL), inputs.ids, inputs.states).logits_steps
    ids, states = inputs.ids.clone(), inputs.states.clone()
    ids[7] = (ids[7] + 1) % 40
    states[6] += 1.0
    after = teacher_forced(drafter_for(SMALL), ids, states).logits_steps
    for step, (a, b) in enumerate(zip(before, after, strict=True)):
        same = 6 - step  # rows t with t + 1 + step < 7 and t < 6
        assert torch.allclose(a[:same], b[:same], atol=1e-6)
        assert not torch.allclose(a[same], b[same], atol=1e-3)


def test_a_constant_offset_of_positions_changes_nothing_and_other_positions_do() -> None:
    inputs = inputs_for(SMALL)
    drafter = drafter_for(SMALL)
    base = teacher_forced(drafter, inputs.ids, inputs.states).logits_steps
    shifted = teacher_forced(drafter, inputs.ids, inputs.states, position_ids_T=torch.arange(11) + 5).logits_steps
    spread = teacher_forced(drafter, inputs.ids, inputs.states, position_ids_T=torch.arange(11) * 3).logits_steps
    assert largest_miss(shifted, base) <= 1.0
    assert largest_miss(spread, base) > 100.0


def test_steps_come_one_by_one_and_equal_the_whole() -> None:
    inputs = inputs_for(SMALL)
    drafter = drafter_for(SMALL)
    whole = teacher_forced(drafter, inputs.ids, inputs.states)
    for out, logits in zip(draft_steps(drafter, inputs.ids, inputs.states), whole.logits_steps, strict=True):
        assert torch.equal(out.logits, logits[out.rows])
        assert out.rows.tolist() == list(range(10 - out.step))
        assert out.state.shape == (10 - out.step, 16)


@pytest.mark.parametrize("feedback", Feedback)
def test_taps_show_where_two_forwards_part(feedback: Feedback) -> None:
    """Feedback flipped: everything of step 0 is equal, and the first thing that parts is the hidden stream entering step 1."""
    inputs = inputs_for(SMALL)
    recorders = []
    for wiring in (small(feedback=feedback), small(feedback=Feedback.PRE_NORM)):
        recorders.append(Recorder())
        teacher_forced(drafter_for(wiring), inputs.ids, inputs.states, taps=recorders[-1])
    first, second = recorders
    assert first.values.keys() == second.values.keys()
    parts = [key for key in first.values if not torch.equal(first.values[key], second.values[key])]
    assert parts[:1] == ([(1, "layers.0.hidden_normed")] if feedback is Feedback.POST_NORM else [])


def test_taps_come_in_the_order_of_computation() -> None:
    inputs = inputs_for(SMALL)
    taps = Recorder()
    out = teacher_forced(drafter_for(small(layers=2)), inputs.ids, inputs.states, steps=2, taps=taps)
    layers = [f"layers.{i}.{n}" for i in (0, 1) for n in ("embedding_normed", "hidden_normed", "attn_in", "attn_out", "mlp_out", "out")]
    entry_only_first = [n for n in layers if n not in ("layers.1.embedding_normed", "layers.1.hidden_normed")]
    tail = [*entry_only_first, "final_normed", "logits"]
    assert [n for s, n in taps.values if s == 0] == ["fc_in", "fc_normed", "fc_out", *tail]
    assert [n for s, n in taps.values if s == 1] == tail
    assert torch.equal(taps.spread(1, "logits", 10).nan_to_num(), out.logits_steps[1].nan_to_num())


def test_residuals_and_branches_add_up() -> None:
    inputs = inputs_for(SMALL)
    taps = Recorder()
    teacher_forced(drafter_for(SMALL), inputs.ids, inputs.states, steps=1, taps=taps)
    v = {name: value for (_, name), value in taps.values.items()}
    assert torch.allclose(v["fc_out"] + v["layers.0.attn_out"] + v["layers.0.mlp_out"], v["layers.0.out"], atol=1e-5)


@pytest.mark.parametrize(
    ("docs", "complaint"),
    [([0, 0, 1, 0], "comes back"), ([0, 0, -2, -2], "below -1"), ([3, -1, 3, 3], "comes back")],
)
def test_bad_document_ids_are_refused(docs: list[int], complaint: str) -> None:
    inputs = inputs_for(SMALL, tokens=4)
    with pytest.raises(InputRejected, match=complaint) as caught:
        teacher_forced(drafter_for(SMALL), inputs.ids, inputs.states, document_ids_T=torch.tensor(docs))
    assert caught.value.rule == "drafter.document-ids"


@pytest.mark.parametrize(
    "change",
    [
        {"input_ids_T": torch.zeros(11, dtype=torch.int32)},
        {"input_ids_T": torch.zeros(10, dtype=torch.int64)},
        {"input_ids_T": torch.zeros(11, 1, dtype=torch.int64)},
        {"hidden_states_TC": torch.zeros(11, 47)},
        {"hidden_states_TC": torch.zeros(11, 48, dtype=torch.int64)},
        {"position_ids_T": torch.zeros(10, dtype=torch.int64)},
        {"position_ids_T": torch.zeros(11)},
        {"document_ids_T": torch.zeros(12, dtype=torch.int64)},
    ],
    ids=lambda c: "-".join(c),
)
def test_inputs_of_another_shape_or_dtype_are_refused(change: dict[str, Tensor]) -> None:
    inputs = inputs_for(SMALL)
    given_inputs = {"input_ids_T": inputs.ids, "hidden_states_TC": inputs.states} | change
    with pytest.raises(InputRejected) as caught:
        teacher_forced(drafter_for(SMALL), **given_inputs)
    assert caught.value.rule == "drafter.input-shape"


def test_values_out_of_range_are_refused() -> None:
    inputs = inputs_for(SMALL)
    drafter = drafter_for(SMALL)
    with pytest.raises(InputRejected, match="token id 40 has no row"):
        teacher_forced(drafter, torch.full_like(inputs.ids, 40), inputs.states)
    with pytest.raises(InputRejected, match="token id -3 has no row"):
        teacher_forced(drafter, torch.full_like(inputs.ids, -3), inputs.states)
    with pytest.raises(InputRejected, match="cannot be negative"):
        teacher_forced(drafter, inputs.ids, inputs.states, position_ids_T=torch.arange(11) - 1)
    with pytest.raises(UsageError, match="0 steps"):
        teacher_forced(drafter, inputs.ids, inputs.states, steps=0)


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize("rollout", Rollout)
def test_too_few_tokens_give_no_rows(tokens: int, rollout: Rollout) -> None:
    inputs = inputs_for(SMALL, tokens=tokens)
    out = teacher_forced(drafter_for(SMALL), inputs.ids, inputs.states, rollout=rollout)
    assert [logits.shape for logits in out.logits_steps] == [(0, 24)] * 3
