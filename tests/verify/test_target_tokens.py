"""The target's tokens from its last states: chunk by chunk over memory that is used again, and only where they are asked for."""

from __future__ import annotations

import pytest
import torch

from eagle3_contract.verify import target_tokens
from eagle3_contract.verify.target_tokens import NOT_ASKED, TargetHead

WIDTH, VOCAB, TOKENS = 16, 50, 23


@pytest.fixture(params=[torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def head(request: pytest.FixtureRequest) -> TargetHead:
    noise = torch.Generator().manual_seed(1)
    norm_G, head_VG = torch.rand(WIDTH, generator=noise) + 0.5, torch.randn(VOCAB, WIDTH, generator=noise)
    return TargetHead(norm_G.to(request.param), head_VG.to(request.param), 1e-5)


def states(seed: int = 2, tokens: int = TOKENS) -> torch.Tensor:
    return torch.randn(tokens, WIDTH, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def plainly(head: TargetHead, last_TG: torch.Tensor, targets_D: torch.Tensor, *, norm: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition, in one expression and in double precision: no tie is near with these seeds."""
    x_TG, norm_G, head_VG = (x.double() for x in (last_TG, head.norm_G, head.head_VG))
    if norm:
        x_TG = x_TG * (x_TG.square().mean(-1, keepdim=True) + head.eps).rsqrt() * norm_G
    logits_TV = x_TG @ head_VG.T
    return logits_TV.argmax(-1), logits_TV[:, targets_D].argmax(-1)


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("chunk", [1, 7, TOKENS, 256])
def test_the_argmax_over_both_vocabularies(head: TargetHead, norm: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_tokens, "ROWS", chunk)
    targets_D = torch.arange(0, VOCAB, 3)
    full_T, draft_T = plainly(head, states(), targets_D, norm=norm)
    found = head.tokens(states(), targets_D, norm=norm)
    assert found.draft is not None
    # A product in bfloat16 may turn a near tie in a row or two; in float32 none is that near.
    turned = 2 if head.head_VG.dtype is torch.bfloat16 else 0
    assert int((found.full != full_T).sum()) <= turned
    assert int((found.draft != draft_T).sum()) <= turned


def test_rows_that_nobody_asked_for_are_marked_and_the_others_are_the_same(head: TargetHead) -> None:
    targets_D = torch.arange(0, VOCAB, 3)
    wanted_T = torch.arange(TOKENS) % 3 == 1
    whole, part = head.tokens(states(), targets_D, norm=True), head.tokens(states(), targets_D, norm=True, wanted_T=wanted_T, draft=False)
    assert part.draft is None
    assert part.full[wanted_T].tolist() == whole.full[wanted_T].tolist()
    assert set(part.full[~wanted_T].tolist()) == {NOT_ASKED}


def test_a_later_sample_leaves_an_earlier_ones_tokens_alone(head: TargetHead) -> None:
    targets_D = torch.arange(VOCAB)
    first = head.tokens(states(), targets_D, norm=True)
    kept = first.full.clone()
    head.tokens(states(seed=9, tokens=40), targets_D, norm=True)  # more rows: the memory grows
    head.tokens(states(seed=5, tokens=3), targets_D, norm=True)
    assert torch.equal(first.full, kept)
    assert torch.equal(head.tokens(states(), targets_D, norm=True).full, kept)


def test_no_row_is_no_token(head: TargetHead) -> None:
    nothing = torch.zeros(TOKENS, dtype=torch.bool)
    assert set(head.tokens(states(), torch.arange(VOCAB), norm=True, wanted_T=nothing).full.tolist()) == {NOT_ASKED}
    assert len(head.tokens(states(tokens=0), torch.arange(VOCAB), norm=True).full) == 0
