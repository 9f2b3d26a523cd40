"""A packed sample counts as its documents do, each by itself."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.verify.acceptance import Acceptance
from eagle3_contract.verify.best import Best
from eagle3_contract.verify.figures import measure
from eagle3_contract.verify.metrics import Definition, TargetTokens

STEPS, DRAFT, VOCAB = 3, 6, 9


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    padding=st.integers(0, 3),
    definition=st.sampled_from(list(Definition)),
    seed=st.integers(0, 1000),
)
def test_packed_is_the_sum_of_its_documents(lengths: list[int], padding: int, definition: Definition, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    tokens = sum(lengths) + padding
    ids_T = torch.randint(0, VOCAB, (tokens,), generator=rng)
    mask_T = torch.randint(0, 2, (tokens,), generator=rng).to(torch.uint8)
    targets_D = torch.randperm(VOCAB, generator=rng)[:DRAFT].sort().values
    target = TargetTokens.from_logits(torch.randn(tokens, VOCAB, generator=rng), targets_D)
    best = [Best.of(torch.randn(max(tokens - 1, 0), DRAFT, generator=rng)) for _ in range(STEPS)]
    documents_T = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)] + [torch.full((padding,), -1)])
    packed, counts, _ = measure(best, STEPS, targets_D, ids_T, mask_T, target, definition, documents_T)
    length, right, rows, start = Acceptance(), [0] * STEPS, [0] * STEPS, 0
    for n in lengths:
        at, of = slice(start, start + n), slice(start, start + n - 1)
        own_target = TargetTokens(target.full[at], None if target.draft is None else target.draft[at])
        own, own_counts, _ = measure([b.rows(of) for b in best], STEPS, targets_D, ids_T[at], mask_T[at], own_target, definition)
        assert own_counts is not None
        length = length + own
        right = [a + b for a, b in zip(right, own_counts.right, strict=True)]
        rows = [a + b for a, b in zip(rows, own_counts.rows, strict=True)]
        start += n
    assert packed == length
    assert counts is not None
    assert (list(counts.right), list(counts.rows)) == (right, rows)
