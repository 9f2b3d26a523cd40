"""What dumps say about themselves, on dumps of real trainers and on states made to mislead."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from eagle3_contract.trainers.measure import Answer, HeadRows, head_rows, is_embedding, is_normed, repeated
from eagle3_contract.trainers.samples import load_sample
from tests.trainers.views import DATA, PEERS

SAMPLES = DATA / "samples"
TABLE = load_file(PEERS / "target_tiny" / "model-00001-of-00008.safetensors")["model.embed_tokens.weight"]


def rows(ids: torch.Tensor) -> torch.Tensor:
    return TABLE[ids]


@pytest.mark.parametrize("scale", [1.0, 8.0, 0.25])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_embedding_is_known_in_any_dtype_and_scale(scale: float, dtype: torch.dtype) -> None:
    ids = torch.tensor([5, 3, 5, 200, 411])
    found = is_embedding((scale * TABLE[ids]).to(dtype), ids, rows)
    assert found.answer is Answer.YES, found.text
    assert ("bit-equal" in found.text) is (scale == 1.0)
    noisy = (scale * TABLE[ids] * (1 + 1e-3 * torch.randn(5, 64))).to(dtype)
    assert is_embedding(noisy, ids, rows).answer is Answer.YES


def test_states_of_layers_and_of_other_tokens_are_not_the_embedding() -> None:
    sample = load_sample(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors", allow_pickle=False)
    for state in (*sample.states_THk, sample.last_TG):
        assert state is not None
        assert is_embedding(state, sample.input_ids_T, rows).answer is Answer.NO
    ids = sample.input_ids_T
    assert is_embedding(TABLE[ids.roll(1)], ids, rows).answer is Answer.NO
    assert is_embedding(torch.zeros(len(ids), 64), ids, rows).answer is Answer.NO
    assert is_embedding(torch.randn(len(ids), 64), ids, rows).answer is Answer.NO
    assert is_embedding(TABLE[ids][:, :32], ids, rows).answer is Answer.NO


def test_one_wrong_row_leaves_the_embedding_undecided() -> None:
    ids = torch.arange(40)
    state = TABLE[ids].clone()
    state[7] = torch.randn(64)
    assert is_embedding(state, ids, rows).answer is Answer.UNDECIDED


def normed(state: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * state * torch.rsqrt(state.pow(2).mean(-1, keepdim=True) + 1e-5)


def test_dumps_are_told_before_and_after_the_norm() -> None:
    """One text and one target: speculators stores the stream before the final norm, SpecForge after it, and they tell the weight."""
    before = load_sample(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors", allow_pickle=False).last_TG
    after = load_sample(SAMPLES / "specforge/rows_0-2000/data_0.ckpt", allow_pickle=True).last_TG
    assert before is not None
    assert after is not None
    weight = (after / (before * torch.rsqrt(before.pow(2).mean(-1, keepdim=True) + 1e-5))).median(0).values
    assert is_normed(after, weight).answer is Answer.YES
    assert is_normed(before, weight).answer is Answer.NO


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([torch.float32, torch.bfloat16]), st.floats(1.0, 100.0), st.booleans())
def test_a_normed_state_is_known_and_an_unnormed_one_never_taken_for_it(seed: int, dtype: torch.dtype, size: float, gemma: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = 0.5 + torch.rand(64, generator=generator)
    stream = size * torch.randn(12, 64, generator=generator) * torch.logspace(0, 1, 12)[:, None]
    stored = weight - 1 if gemma else weight
    offset = 1.0 if gemma else 0.0
    assert is_normed(normed(stream, weight).to(dtype), stored, weight_offset=offset).answer is Answer.YES
    assert is_normed(stream.to(dtype), stored, weight_offset=offset).answer is Answer.NO


def test_a_dead_norm_weight_decides_nothing() -> None:
    assert is_normed(torch.randn(4, 64), torch.cat([torch.ones(4), torch.zeros(60)])).answer is Answer.UNDECIDED


def test_states_stored_twice_are_named() -> None:
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    assert repeated([a, b, a.clone()]) == [(0, 2)]
    assert repeated([a, b]) == []
    assert repeated([torch.full((4, 8), torch.nan)] * 2) == []


def test_a_head_pruned_by_offset_is_caught() -> None:
    full = torch.randn(64, 16)
    ids = torch.tensor([0, 3, 9, 20, 41])
    d2t = ids - torch.arange(5)
    draft = torch.arange(5)
    lookup = full.__getitem__
    assert head_rows(full[ids], draft, d2t, lookup) is HeadRows.TARGET_ROWS
    assert head_rows(full[ids].bfloat16(), draft, d2t, lookup) is HeadRows.TARGET_ROWS
    assert head_rows(full[d2t], draft, d2t, lookup) is HeadRows.BY_OFFSET
    assert head_rows(torch.randn(5, 16), draft, d2t, lookup) is HeadRows.INDEPENDENT
    assert head_rows(torch.randn(5, 8), draft, d2t, lookup) is HeadRows.INDEPENDENT


def test_the_dump_of_the_seed_gives_itself_away(tmp_path: Path) -> None:
    """A list of [embedding, a, b, c], sliced as the trainer slices it: fc gets the embedding, a and b, and c is no last state."""
    dumped = load_sample(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors", allow_pickle=False)
    ids = dumped.input_ids_T
    torch.save(
        {"input_ids": ids, "loss_mask": dumped.loss_mask_T, "hidden_states": [TABLE[ids], *dumped.states_THk]}, tmp_path / "data_0.pt"
    )
    sample = load_sample(tmp_path / "data_0.pt", allow_pickle=True)
    assert [is_embedding(s, ids, rows).answer for s in sample.states_THk] == [Answer.YES, Answer.NO, Answer.NO]
    assert sample.last_TG is not None
    assert torch.equal(sample.last_TG, dumped.states_THk[2])
