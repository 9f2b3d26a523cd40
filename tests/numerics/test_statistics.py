"""One-pass statistics against plain float64 arithmetic, at the edges of the number formats too."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import InternalError
from contract.numerics.statistics import compare, row_errors


def close(found: float, wanted: float, relative: float = 1e-5) -> bool:
    return math.isclose(found, wanted, rel_tol=relative, abs_tol=1e-30)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    shape=st.sampled_from([(1, 1), (7, 5), (3, 4, 6), (40, 33), (2, 1000)]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
    chunk=st.sampled_from([1, 3, 64, 1 << 18]),
    scale=st.sampled_from([1.0, 1e-3, 100.0]),
)
def test_agrees_with_plain_float64(seed: int, shape: tuple[int, ...], dtype: torch.dtype, chunk: int, scale: float) -> None:
    make = torch.Generator().manual_seed(seed)
    a = (torch.randn(shape, generator=make) * scale).to(dtype)
    b = (a.float() + torch.randn(shape, generator=make) * scale * 0.1).to(dtype)
    b.view(-1)[0] = a.view(-1)[0]
    x, y = a.double(), b.double()
    found = compare(a, b, chunk=chunk)
    assert found.n == a.numel()
    assert found.bit_equal == int((a == b).sum())
    assert close(found.sum_ab, float((x * y).sum()), 1e-4)
    assert close(found.sum_a2, float(x.square().sum()))
    assert close(found.sum_d2, float((x - y).square().sum()))
    assert close(found.sum_abs, float((x - y).abs().sum()))
    assert close(found.relative_l2, float((x - y).norm() / y.norm()))
    scale_aware = 1 - 2 * (x * y).sum() / (x.square().sum() + y.square().sum())
    assert math.isclose(found.distance, float(scale_aware), rel_tol=1e-3, abs_tol=1e-9)
    assert close(found.max_abs, float((x - y).abs().max()))
    assert found.max_index is not None
    assert (found.max_a, found.max_b) == (float(a[found.max_index]), float(b[found.max_index]))
    assert found.histogram is not None
    assert sum(found.histogram) == found.n
    rows_x, rows_y = x.reshape(shape[0], -1), y.reshape(shape[0], -1)
    torch.testing.assert_close(found.rows.error, (rows_x - rows_y).norm(dim=1) / rows_y.norm(dim=1), rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(found.rows.norm_a, rows_x.norm(dim=1), rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(found.rows.scale, (rows_x * rows_y).sum(1) / rows_y.square().sum(1), rtol=1e-4, atol=1e-5)
    assert bool(found.rows.finite.all())


def test_the_histogram_counts_by_powers_of_two() -> None:
    b = torch.tensor([[1.0, 1.0, -1.0, 0.0, 0.0, 1.0]])
    a = torch.tensor([[1.0, 1.5, -1.25, 0.0, 2.0, 1.375]])
    histogram = compare(a, b).histogram
    assert histogram is not None
    assert {e - 127: n for e, n in enumerate(histogram) if n} == {-127: 2, -1: 1, -2: 2, 128: 1}


def test_share_above_is_never_too_small() -> None:
    b = torch.ones(1, 4)
    found = compare(torch.tensor([[1.0, 1.01, 1.5, math.nan]]), b)
    assert found.share_above(0.1) == 0.5
    assert found.share_above(0.0) == 1.0
    with pytest.raises(InternalError):
        compare(b, b, histogram=False).share_above(0.1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_infinitely_far_even_from_itself(value: float) -> None:
    a = torch.ones(3, 4)
    a[1, 2] = value
    found = compare(a, a.clone())
    assert (found.nonfinite_a, found.nonfinite_b, found.nonfinite_mismatch) == (1, 1, 0)
    assert not found.identical
    assert found.bit_equal == 11
    assert found.relative_l2 == found.distance == found.mean_abs == math.inf
    assert math.isnan(found.cosine)
    assert found.rows.error.tolist() == [0.0, math.inf, 0.0]
    assert found.rows.norm_a[1] == math.inf


def test_non_finite_on_one_side_is_a_mismatch_and_leaves_other_rows_alone() -> None:
    b = torch.arange(1.0, 13.0).view(3, 4)
    a = b * 1.5
    a[0, 0] = math.nan
    b[2, 3] = -math.inf
    found = compare(a, b)
    assert (found.nonfinite_a, found.nonfinite_b, found.nonfinite_mismatch) == (1, 1, 2)
    assert found.rows.error[1] == pytest.approx(0.5)
    assert found.rows.finite.tolist() == [False, True, False]
    assert found.max_index == (2, 2)


def test_the_largest_difference_is_found_beside_a_non_finite_value() -> None:
    a = torch.tensor([[math.nan, 1.0, 5.0]])
    assert compare(a, torch.ones(1, 3)).max_index == (0, 2)
    assert compare(a[:, :1], torch.ones(1, 1)).max_index is None


@pytest.mark.parametrize("magnitude", [1e30, 1e-30, 3e38])
def test_squares_beyond_float32_are_summed_in_float64(magnitude: float) -> None:
    b = torch.full((2, 8), magnitude, dtype=torch.bfloat16)
    a = b.clone()
    a[1, 3] = 0.0
    found = compare(a, b)
    assert found.finite
    assert found.rows.error[0] == 0.0
    assert found.rows.error[1] == pytest.approx(math.sqrt(1 / 8), rel=1e-6)
    assert found.rows.cosine[1] == pytest.approx(math.sqrt(7 / 8), rel=1e-6)


def test_a_small_difference_of_large_numbers_does_not_cancel() -> None:
    b = torch.full((4, 4096), 1000.0)
    a = b.clone()
    a[2, 7] += 2.0**-10
    assert compare(a, b).rows.error[2] == pytest.approx(2.0**-10 / (1000 * 64), rel=1e-5)


def test_zero_rows() -> None:
    a, b = torch.zeros(3, 4), torch.zeros(3, 4)
    a[1] = b[2] = 1.0
    found = compare(a, b)
    assert found.rows.error.tolist() == [0.0, math.inf, 1.0]
    assert compare(b * 0, b * 0).relative_l2 == 0.0


def test_float64_and_wide_integers_keep_their_precision() -> None:
    b = torch.ones(1, 4, dtype=torch.float64)
    assert compare(b + 1e-12, b).rows.error[0] == pytest.approx(1e-12, rel=1e-3)
    ids = torch.tensor([[2**30, 2**30]])
    assert compare(ids + torch.tensor([[0, 1]]), ids).max_abs == 1.0


def test_minus_zero_has_other_bits_but_is_no_difference() -> None:
    found = compare(torch.tensor([[0.0, 1.0]]), torch.tensor([[-0.0, 1.0]]))
    assert (found.bit_equal, found.sum_d2, found.identical) == (1, 0.0, False)


def test_other_strides_and_dtypes() -> None:
    a = torch.randn(16, 8)
    assert compare(a.T, a.clone().T).identical
    assert compare(a.bfloat16(), a.bfloat16().float()).identical
    assert compare(a.expand(2, 16, 8), a.expand(2, 16, 8)).identical


def test_a_pooled_figure_is_blind_where_the_row_figure_is_not() -> None:
    make = torch.Generator().manual_seed(0)
    a, b = torch.randn(60, 64, generator=make), torch.randn(60, 64, generator=make)
    a[0] = b[0] = 1000.0
    found = compare(a, b)
    assert found.cosine > 0.999
    assert found.rows.error[1:].median() > 1.0
    assert torch.equal(row_errors(a, b), found.rows.error)


def test_nothing_to_compare() -> None:
    found = compare(torch.empty(0, 4), torch.empty(0, 4))
    assert (found.n, found.max_index, found.relative_l2) == (0, None, 0.0)


def test_a_wrong_call_is_an_internal_error() -> None:
    with pytest.raises(InternalError):
        compare(torch.ones(2, 3), torch.ones(3, 2))
    with pytest.raises(InternalError):
        compare(torch.ones(2, dtype=torch.complex64), torch.ones(2))
