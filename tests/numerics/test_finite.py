"""Whether a tensor is finite, held against torch's own isfinite."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contract.numerics.finite import all_finite

BAD = [math.nan, -math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@given(
    rows=st.integers(0, 5),
    width=st.integers(0, 70),
    bad=st.lists(st.tuples(st.sampled_from(BAD), st.integers(0, 400)), max_size=3),
    stride=st.integers(1, 3),
    turned=st.booleans(),
)
def test_as_isfinite_says(dtype: torch.dtype, rows: int, width: int, bad: list[tuple[float, int]], stride: int, turned: bool) -> None:
    x = torch.full((rows, width), float(torch.finfo(dtype).max), dtype=dtype)
    x[:, ::2] *= -1
    for value, at in bad:
        if x.numel():
            x.view(-1)[at % x.numel()] = value
    seen = x[:, ::stride].T if turned else x[:, ::stride]
    assert all_finite(seen) is bool(seen.isfinite().all())


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("at", [0, 1, 5_000, 9_998, 9_999])
def test_one_element_anywhere_in_a_long_row_is_seen(value: float, at: int) -> None:
    x = torch.zeros(10_000, dtype=torch.bfloat16)
    assert all_finite(x)
    x[at] = value
    assert not all_finite(x)
