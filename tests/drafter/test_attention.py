"""Attention in blocks: the same for every block size, never a sum in a narrow dtype, never a score that is not needed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.drafter.attention import KeyValue, Sight, attend

from .build import generator


@given(
    queries=st.integers(1, 9),
    before=st.integers(0, 5),
    own_steps=st.integers(0, 3),
    window=st.none() | st.integers(1, 6),
    budget=st.integers(1, 80),
    group=st.integers(1, 3),
)
def test_block_size_does_not_matter(queries: int, before: int, own_steps: int, window: int | None, budget: int, group: int) -> None:
    rng = generator(queries + 10 * before)
    q = torch.randn(queries, 2 * group, 4, generator=rng)
    keys = KeyValue(torch.randn(before + queries, 2, 4, generator=rng), torch.randn(before + queries, 2, 3, generator=rng))
    own = [KeyValue(torch.randn(queries, 2, 4, generator=rng), torch.randn(queries, 2, 3, generator=rng)) for _ in range(own_steps)]
    sight = Sight(before, window, min(own_steps, (window or 9) - 1))
    whole = attend(q, keys, sight, 0.5, own, budget=10**6)
    assert torch.allclose(attend(q, keys, sight, 0.5, own, budget=budget), whole, atol=1e-6)
    assert not bool(whole.isnan().any())


@given(queries=st.integers(1, 6), before=st.integers(0, 4), window=st.none() | st.integers(1, 4), advance=st.integers(0, 3))
def test_unseen_keys_do_not_count(queries: int, before: int, window: int | None, advance: int) -> None:
    """NaN in every value that a query must not see leaves its output as it was."""
    advance = min(advance, (window or 9) - 1)
    rng = generator(3)
    total = before + queries + 2
    q = torch.randn(queries, 2, 4, generator=rng)
    keys = KeyValue(torch.randn(total, 1, 4, generator=rng), torch.randn(total, 1, 4, generator=rng))
    sight = Sight(before, window, advance)
    whole = attend(q, keys, sight, 0.5)
    for i in range(queries):
        row = before + i
        seen = [k for k in range(total) if k <= row and (window is None or k > row + advance - window)]
        kept = KeyValue(keys.key[seen], keys.value[seen])
        alone = attend(q[i : i + 1], kept, Sight(len(seen) - 1), 0.5)
        assert torch.allclose(whole[i : i + 1], alone, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_softmax_and_sum_are_float32(dtype: torch.dtype) -> None:
    """4096 equal weights over ones give one; summed in bfloat16 they would stop growing, and 1/4096 each in float16 loses the tail."""
    keys = KeyValue(torch.zeros(4097, 1, 4, dtype=dtype), torch.ones(4097, 1, 4, dtype=dtype))
    out = attend(torch.zeros(1, 2, 4, dtype=dtype), keys, Sight(4096), 1.0)
    assert out.dtype is dtype
    assert torch.equal(out, torch.ones_like(out))


def test_large_scores_do_not_overflow_in_float16() -> None:
    keys = KeyValue(torch.full((2, 1, 64), 60.0, dtype=torch.float16), torch.ones(2, 1, 4, dtype=torch.float16))
    out = attend(torch.full((1, 1, 64), 60.0, dtype=torch.float16), keys, Sight(1), 1.0)
    assert torch.equal(out, torch.ones_like(out))
