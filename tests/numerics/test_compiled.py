"""The compiled loops against the pass in numpy and torch, which is itself held against float64 (test_statistics.py)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from contract.numerics import accumulate, compiled
from contract.numerics.statistics import Comparison, compare

WIDTHS = (1, 7, 1023, 1024, 1025, 2500)
SPECIAL = (0.0, -0.0, 1e-30, -1e-30, 1e-40, 3e38, math.inf, -math.inf, math.nan)


def sizes(patch: pytest.MonkeyPatch, elements: int) -> None:
    for name in ("MIN_ELEMENTS", "MIN_ELEMENTS_LOADED"):
        patch.setattr(compiled, name, elements)


def both(a: Tensor, b: Tensor, monkeypatch: pytest.MonkeyPatch, *, histogram: bool = True, chunk: int | None = None) -> list[Comparison]:
    """The comparison without and with the loops, the second one shown to have used them."""
    used = []
    kernel_chunk = compiled.Kernel.chunk

    def counted(self: compiled.Kernel, a_RC: Tensor, b_RC: Tensor) -> compiled.ChunkFigures | None:
        found = kernel_chunk(self, a_RC, b_RC)
        used.append(found is not None)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(compiled.Kernel, "chunk", counted)
        sizes(patch, 1 << 62)
        plain = compare(a, b, histogram=histogram, chunk=chunk)
        assert not used
        sizes(patch, 1)
        fast = compare(a, b, histogram=histogram, chunk=chunk)
        assert used or torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    return [plain, fast]


def agree(plain: Comparison, fast: Comparison) -> None:
    for name in ("n", "bit_equal", "nonfinite_a", "nonfinite_b", "nonfinite_mismatch", "max_abs", "histogram"):
        assert getattr(plain, name) == getattr(fast, name), name
    if plain.max_index != fast.max_index:  # a tie
        assert abs(plain.max_a - plain.max_b) == abs(fast.max_a - fast.max_b)
    for name in ("sum_ab", "sum_a2", "sum_b2", "sum_d2", "sum_abs"):
        assert getattr(plain, name) == pytest.approx(getattr(fast, name), rel=1e-5, abs=1e-6 * math.sqrt(plain.sum_a2 * plain.sum_b2))
    for name in ("error", "norm_a", "norm_b", "scale", "cosine"):
        torch.testing.assert_close(getattr(plain.rows, name), getattr(fast.rows, name), rtol=1e-5, atol=1e-6, equal_nan=True)
    assert torch.equal(plain.rows.finite, fast.rows.finite)


@pytest.mark.parametrize("dtype", sorted(compiled.SHIFTS, key=str))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("histogram", [True, False])
def test_noisy_rows(dtype: torch.dtype, width: int, histogram: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(width)
    b = torch.randn(9, width)
    a = b * (1 + 0.01 * torch.randn(9, width))
    a[3] = b[3]
    agree(*both(a.to(dtype), b.to(dtype), monkeypatch, histogram=histogram))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1200), st.sampled_from(SPECIAL), st.booleans()), max_size=12),
    st.sampled_from(sorted(compiled.SHIFTS, key=str)),
    st.sampled_from([None, 1000, 5000]),
)
def test_special_values(
    monkeypatch: pytest.MonkeyPatch, put: list[tuple[int, int, float, bool]], dtype: torch.dtype, chunk: int | None
) -> None:
    torch.manual_seed(len(put))
    b = torch.randn(6, 1201).to(dtype)
    a = (b.float() * 1.02).to(dtype)
    for row, column, value, in_both in put:
        a[row, column] = value
        if in_both:
            b[row, column] = -value
    agree(*both(a, b, monkeypatch, chunk=chunk))


@pytest.mark.parametrize("scale", [0.0, 1e-25, 1e-38])
def test_rows_that_underflow_are_looked_at_again(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    b = torch.randn(4, 300)
    b[2] *= scale
    a = b * 1.5
    plain, fast = both(a, b, monkeypatch)
    agree(plain, fast)
    assert float(fast.rows.error[2]) == (0.0 if scale == 0.0 else pytest.approx(0.5, rel=1e-3))


def test_strided_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    wide = torch.randn(5, 4000).bfloat16()
    b = wide[:, ::2]
    agree(*both((b.float() * 1.1).bfloat16(), b, monkeypatch))


def test_small_tensors_and_other_dtypes_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    small = torch.ones(3, 3)
    assert compiled.kernel_for(small, small, histogram=True) is None
    sizes(monkeypatch, 1)
    assert compiled.kernel_for(small, small, histogram=True) is not None
    assert compiled.kernel_for(small.half(), small.half(), histogram=True) is None
    assert compiled.kernel_for(small, small.bfloat16(), histogram=True) is None


def test_without_numba_the_pass_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    b = torch.randn(4, 50)
    sizes(monkeypatch, 1)
    monkeypatch.setattr(compiled, "installed", lambda: False)
    assert accumulate.Pass(b, b + 1, chunk=None, histogram=True).kernel is None
    assert compare(b + 1, b).max_abs == pytest.approx(1.0, rel=1e-6)
