"""Every switch against an independent oracle, on inputs where it acts: right under its own wiring, missed with it flipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import (
    ConcatOrder,
    Feedback,
    LaterLayerNorm,
    Mla,
    NormBeforeFc,
    Owner,
    Rollout,
    Rope,
    StepPositions,
    Wiring,
)

from .build import MLA, SMALL, inputs_for, small, tensors_for
from .compare import expected_steps, largest_miss, oracle, run, same_rows

STEPS = 4
YARN = Rope(type="yarn", scaling={"factor": 8.0, "original_max_position_embeddings": 64, "mscale": 1.0, "mscale_all_dim": 0.8})
LLAMA3 = Rope(
    type="llama3",
    theta=500.0,
    scaling={"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
)
BOTH_NORMS = (NormBeforeFc.INPUT_NORM, NormBeforeFc.FC_NORM)
LATENT = MLA.mla
assert LATENT is not None


def mla(**changes: Any) -> Wiring:
    return replace(MLA, **changes)


def latent(**changes: Any) -> Mla:
    assert LATENT is not None
    return replace(LATENT, **changes)


CASES: dict[str, tuple[Wiring, Wiring | None]] = {
    # name: (wiring, the same with one switch flipped; None if another wiring would need other sizes)
    "plain": (SMALL, None),
    "norm_before_residual": (small(norm_before_residual=True), SMALL),
    "input_norm": (small(norms_before_fc=(NormBeforeFc.INPUT_NORM,)), SMALL),
    "fc_norm": (small(norms_before_fc=(NormBeforeFc.FC_NORM,)), SMALL),
    "order of two norms": (small(norms_before_fc=BOTH_NORMS), small(norms_before_fc=BOTH_NORMS[::-1])),
    "post-norm fed back": (small(feedback=Feedback.POST_NORM), SMALL),
    "no final norm": (small(final_norm=False), SMALL),
    "no hidden_norm": (small(hidden_norm=False), SMALL),
    "double norm": (small(double_norm=True), SMALL),
    "hidden first": (small(concat_order=ConcatOrder.HIDDEN_FIRST), SMALL),
    "fc bias": (small(fc_bias=True), SMALL),
    "qkv bias": (small(qkv_bias=True), SMALL),
    "o bias": (small(o_bias=True), SMALL),
    "mlp bias": (small(mlp_bias=True), SMALL),
    "q/k norms": (small(qk_norm=True), SMALL),
    "window": (small(window=3), SMALL),
    "window of one": (small(window=1), small(window=2)),
    "window that stays": (small(window=3, window_follows_steps=False), small(window=3)),
    "window of one that stays": (small(window=1, window_follows_steps=False), small(window=1)),
    "constant positions": (small(step_positions=StepPositions.CONSTANT), SMALL),
    "token shift 0": (small(token_shift=0), SMALL),
    "token shift 2": (small(token_shift=2), SMALL),
    "attention scale": (small(attention_scale=0.1), SMALL),
    "logit scale": (small(logit_scale=0.25), SMALL),
    "gelu": (small(hidden_act="gelu"), SMALL),
    "two layers": (small(layers=2), small(layers=2, later_layer_norm=LaterLayerNorm.NONE)),
    "two layers, hidden_norm": (
        small(layers=2, later_layer_norm=LaterLayerNorm.HIDDEN_NORM),
        small(layers=2, later_layer_norm=LaterLayerNorm.INPUT_LAYERNORM),
    ),
    "three layers, no entry norm": (small(layers=3, later_layer_norm=LaterLayerNorm.NONE), small(layers=3)),
    "three layers, window": (small(layers=3, window=4), small(layers=3)),
    "one state": (small(states=1), small(states=1, fc_applied=False)),
    "one state, fc skipped": (small(states=1, fc_applied=False), small(states=1)),
    "five states": (small(states=5), None),
    "wider target": (small(target_hidden_size=40), None),
    "wider target, fc_norm": (small(target_hidden_size=40, norms_before_fc=(NormBeforeFc.FC_NORM,)), small(target_hidden_size=40)),
    "head_dim of its own": (small(head_dim=12), None),
    "one key head": (small(kv_heads=1), None),
    "all key heads": (small(kv_heads=4), None),
    "embedding of the target": (small(embedding=Owner.TARGET), SMALL),
    "head of the target": (small(lm_head=Owner.TARGET), SMALL),
    "head tied to the own embedding": (small(lm_head=Owner.TIED_TO_OWN), SMALL),
    "head tied to the target's embedding": (small(lm_head=Owner.TIED_TO_TARGET), SMALL),
    "full vocabulary": (small(draft_vocab_size=40, vocab_map=VocabMap.IDENTITY), None),
    "rope theta": (small(rope=Rope(theta=100.0)), SMALL),
    "rope linear": (small(rope=Rope(type="linear", scaling={"factor": 4.0})), SMALL),
    "rope llama3": (small(rope=LLAMA3), small(rope=Rope(theta=500.0))),
    "rope yarn": (small(rope=YARN), SMALL),
    "rope yarn, attention factor": (
        small(rope=Rope(type="yarn", scaling={**YARN.scaling, "attention_factor": 1.7})),
        small(rope=YARN),
    ),
    "rope dynamic, past its length": (small(rope=Rope(type="dynamic", scaling={"factor": 4.0}, table_length=6)), SMALL),
    "rope dynamic, table": (
        small(rope=Rope(type="dynamic", scaling={"factor": 4.0, "static": True}, table_length=64)),
        small(rope=Rope(type="dynamic", scaling={"factor": 4.0}, table_length=64)),
    ),
    "rope mrope on text": (small(rope=Rope(type="mrope", scaling={"mrope_section": (1, 1, 2)})), small(rope=Rope(theta=99.0))),
    "rope interleaved": (small(rope=Rope(interleaved=True)), SMALL),
    "rope on half of the head": (small(rope=Rope(rotary_dim=4)), SMALL),
    "mla": (MLA, mla(rope=Rope())),
    "mla, plain query": (mla(mla=latent(q_lora_rank=None)), None),
    "mla, latent eps": (mla(mla=latent(norm_eps=0.1)), MLA),
    "mla, yarn": (mla(rope=replace(YARN, interleaved=True)), MLA),
    "mla, yarn in the scale": (
        mla(rope=replace(YARN, interleaved=True)),
        mla(rope=replace(YARN, interleaved=True), attention_scale=10**-0.5),
    ),
    "mla, bias": (mla(qkv_bias=True, o_bias=True), MLA),
    "mla, window": (mla(window=3), MLA),
    "mla, two layers": (mla(layers=2), mla(layers=2, later_layer_norm=LaterLayerNorm.NONE)),
}


@pytest.mark.parametrize("name", CASES)
def test_forward_agrees_with_the_oracle(name: str) -> None:
    wiring, _ = CASES[name]
    inputs = inputs_for(wiring)
    expected = expected_steps(oracle(wiring, inputs, steps=STEPS), 10, STEPS)
    got = run(wiring, inputs, steps=STEPS).logits_steps
    assert same_rows(got, expected)
    assert largest_miss(got, expected) <= 1.0


@pytest.mark.parametrize("name", [n for n, (_, flipped) in CASES.items() if flipped is not None])
def test_forward_with_the_switch_flipped_misses(name: str) -> None:
    wiring, flipped = CASES[name]
    assert flipped is not None
    inputs = inputs_for(wiring)
    expected = expected_steps(oracle(wiring, inputs, steps=STEPS), 10, STEPS)
    tensors = {k: v for k, v in tensors_for(wiring).items() if k != "d2t"}
    assert largest_miss(run(flipped, inputs, tensors=tensors, steps=STEPS).logits_steps, expected) > 100.0


@pytest.mark.parametrize(
    "wiring",
    [
        SMALL,
        small(vocab_map=VocabMap.ABSOLUTE),
        small(draft_vocab_size=40, vocab_map=VocabMap.IDENTITY),
        small(vocab_map=VocabMap.IDENTITY),
        small(window=3, feedback=Feedback.POST_NORM),
        mla(layers=2),
    ],
)
def test_own_argmax_rollout_feeds_what_the_drafter_proposed(wiring: Wiring) -> None:
    inputs = inputs_for(wiring)
    found = oracle(wiring, inputs, steps=STEPS, rollout=Rollout.OWN_ARGMAX)
    expected = expected_steps(found, 10, STEPS)
    got = run(wiring, inputs, steps=STEPS, rollout=Rollout.OWN_ARGMAX)
    assert same_rows(got.logits_steps, expected)
    assert not any(bool(logits.isnan().any()) for logits in got.logits_steps)
    assert largest_miss(got.logits_steps, expected) <= 1.0
    assert [[found.fed[step, t] for t in range(10)] for step in range(STEPS)] == [fed.tolist() for fed in got.fed_ids_steps]
    teacher = run(wiring, inputs, steps=STEPS)
    assert largest_miss(teacher.logits_steps[:1], expected[:1]) <= 1.0
    assert largest_miss(teacher.logits_steps[1:], expected[1:]) > 100.0


def test_vocab_map_decides_what_an_own_argmax_rollout_is_fed() -> None:
    """An offset map read as absolute ids feeds other tokens from the second step on, and nothing else changes."""
    inputs = inputs_for(SMALL)
    absolute = {**tensors_for(SMALL), "d2t": tensors_for(SMALL)["d2t"].abs()}
    offset_run = run(SMALL, inputs, rollout=Rollout.OWN_ARGMAX)
    absolute_run = run(small(vocab_map=VocabMap.ABSOLUTE), inputs, tensors=absolute, rollout=Rollout.OWN_ARGMAX)
    assert largest_miss(offset_run.logits_steps[:1], absolute_run.logits_steps[:1]) == 0.0
    assert largest_miss(offset_run.logits_steps[1:], absolute_run.logits_steps[1:]) > 100.0
