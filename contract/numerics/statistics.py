"""How far apart two tensors are, pooled and per row, from one pass (``accumulate.Pass``).

Per row and never only pooled: a few rows (attention sinks) can carry almost all of the norm, and the pooled figures are then blind
to the rest. NaN never equals anything, and neither does an infinity: a row with a non-finite value on either side is infinitely
far, and the pooled distances with it. Non-finite values are counted by themselves (in Python ``max(0.0, nan)`` is 0.0).

Precision against float64: the cosine errs by about 1e-8, relative L2 by about 1e-6 of itself.

Legend: T rows (the first dimension), H the elements of one row (all other dimensions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from contract.errors import InternalError
from contract.numerics.accumulate import Pass
from contract.numerics.exponents import BUCKETS


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Figures per row, each float64 [T] on the CPU.

    Attributes:
        error: ``|a - b| / |b|`` (L2); 0 where the rows are equal, inf where only b is zero or where a value is not finite.
        norm_a: L2 norm of a's row; inf where a value of a is not finite.
        norm_b: the same for b.
        scale: the factor s that makes ``|a - s b|`` least; nan where b's row is zero or a value is not finite.
        cosine: nan where a row is zero or a value is not finite.
        finite: bool [T], False where a value on either side is not finite.
    """

    error: Tensor
    norm_a: Tensor
    norm_b: Tensor
    scale: Tensor
    cosine: Tensor
    finite: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """How far a is from b. ``b`` is the reference: relative figures are relative to it.

    Attributes:
        n: elements of each.
        bit_equal: elements that are finite and have equal bits (in the wider dtype where the two differ).
        nonfinite_a: elements of a that are NaN or infinite.
        nonfinite_b: the same for b.
        nonfinite_mismatch: positions that are finite on one side only, or of unlike kind (nan, inf, -inf).
        sum_ab: sum of ab over the positions that are finite on both sides; so are ``sum_a2`` (a²), ``sum_b2`` (b²), ``sum_d2``
            ((a-b)²) and ``sum_abs`` (|a-b|).
        max_abs: largest |a-b| over the same positions, with ``max_index`` (into the common shape; None if no position is finite on
            both sides) and the two values there.
        histogram: positions by the binary exponent of |a-b|/|b|: entry e counts [2**(e-127), 2**(e-126)); entry 0 counts equality
            (and less than 2**-126), entry 255 a difference from zero. None if it was not asked for.
        rows: the same comparison per row.
    """

    n: int
    bit_equal: int
    nonfinite_a: int
    nonfinite_b: int
    nonfinite_mismatch: int
    sum_ab: float
    sum_a2: float
    sum_b2: float
    sum_d2: float
    sum_abs: float
    max_abs: float
    max_index: tuple[int, ...] | None
    max_a: float
    max_b: float
    histogram: tuple[int, ...] | None
    rows: Rows

    @property
    def finite(self) -> bool:
        """No value on either side is NaN or infinite."""
        return self.nonfinite_a == 0 and self.nonfinite_b == 0

    @property
    def identical(self) -> bool:
        """Every element is finite and bit-equal."""
        return self.bit_equal == self.n

    @property
    def relative_l2(self) -> float:
        """``|a - b| / |b|`` over everything; inf if anything is not finite."""
        return _ratio(math.sqrt(self.sum_d2), math.sqrt(self.sum_b2)) if self.finite else math.inf

    @property
    def cosine(self) -> float:
        """Cosine over everything; nan if anything is not finite or a side is zero."""
        if not self.finite or self.sum_a2 == 0.0 or self.sum_b2 == 0.0:
            return math.nan
        return self.sum_ab / math.sqrt(self.sum_a2) / math.sqrt(self.sum_b2)

    @property
    def distance(self) -> float:
        """Scale-aware ``1 - 2ab/(a² + b²)``: 0 equal, 1 orthogonal, 2 opposite; unlike with the cosine, a factor counts.

        Computed as ``(a-b)²/(a² + b²)``, which is the same and does not cancel.
        """
        return _ratio(self.sum_d2, self.sum_a2 + self.sum_b2) if self.finite else math.inf

    @property
    def mean_abs(self) -> float:
        """Mean of |a-b|; inf if anything is not finite, 0 if there is nothing."""
        if not self.finite:
            return math.inf
        return self.sum_abs / self.n if self.n else 0.0

    def share_above(self, relative: float) -> float:
        """Share of the elements whose |a-b|/|b| reaches ``relative``, counted in whole buckets (so possibly too large, never too
        small); a non-finite position always counts.

        Raises:
            InternalError: the comparison was made without a histogram.
        """
        if self.histogram is None:
            raise InternalError("share_above: the comparison was made without a histogram")
        if self.n == 0:
            return 0.0
        first = max(1, min(BUCKETS - 1, math.frexp(relative)[1] + 126)) if relative > 0.0 else 0
        return (self.n - sum(self.histogram[:first])) / self.n


def compare(a: Tensor, b: Tensor, *, chunk: int | None = None, histogram: bool = True) -> Comparison:
    """Compare two real tensors of one shape, in one pass.

    Args:
        a: what was found, any real dtype, any strides.
        b: the reference, same shape, on the same device; the dtype may differ.
        chunk: elements per chunk; the default suits the device.
        histogram: False saves about a third of the time where the tensors differ.

    Raises:
        InternalError: shapes or devices differ, or a tensor is complex or sparse (callers check shapes before they compare).
    """
    if a.shape != b.shape or a.device != b.device:
        raise InternalError(f"compare: {tuple(a.shape)} on {a.device} against {tuple(b.shape)} on {b.device}")
    if any(x.is_complex() or x.layout is not torch.strided for x in (a, b)):
        raise InternalError("compare: only dense real tensors are compared")
    a_TH, b_TH = _as_rows(a.detach()), _as_rows(b.detach())
    done = Pass(a_TH, b_TH, chunk=chunk, histogram=histogram)
    done.run()
    pooled = {name: float(x.sum()) for name, x in done.sums.items()}
    at = done.max_at
    return Comparison(
        n=a.numel(),
        bit_equal=done.bit_equal,
        nonfinite_a=int(done.bad_a_T.sum()),
        nonfinite_b=int(done.bad_b_T.sum()),
        nonfinite_mismatch=done.mismatch,
        sum_ab=pooled["ab"],
        sum_a2=pooled["a2"],
        sum_b2=pooled["b2"],
        sum_d2=pooled["d2"],
        sum_abs=pooled["abs"],
        max_abs=max(done.max_abs, 0.0),
        max_index=None if at is None else _unravel(at[0] * done.H + at[1], a.shape),
        max_a=0.0 if at is None else float(a_TH[at]),
        max_b=0.0 if at is None else float(b_TH[at]),
        histogram=None if done.exponents is None else tuple(int(k) for k in done.exponents.counts),
        rows=_row_figures(done),
    )


def row_errors(a: Tensor, b: Tensor) -> Tensor:
    """``|a - b| / |b|`` per row, float64 [T] on the CPU; the same figures as ``compare(a, b).rows.error``."""
    return compare(a, b, histogram=False).rows.error


def _row_figures(done: Pass) -> Rows:
    ab_T, a2_T, b2_T, d2_T = (torch.from_numpy(done.sums[k]) for k in ("ab", "a2", "b2", "d2"))
    bad_a_T, bad_b_T = torch.from_numpy(done.bad_a_T) > 0, torch.from_numpy(done.bad_b_T) > 0
    finite_T = ~(bad_a_T | bad_b_T)
    error_T = torch.where(d2_T == 0.0, torch.zeros_like(d2_T), d2_T.sqrt() / b2_T.sqrt())
    return Rows(
        error=error_T.masked_fill_(~finite_T, math.inf),
        norm_a=a2_T.sqrt().masked_fill_(bad_a_T, math.inf),
        norm_b=b2_T.sqrt().masked_fill_(bad_b_T, math.inf),
        scale=(ab_T / b2_T).masked_fill_(~finite_T | (b2_T == 0.0), math.nan),
        cosine=(ab_T / (a2_T.sqrt() * b2_T.sqrt())).masked_fill_(~finite_T, math.nan),
        finite=finite_T,
    )


def _as_rows(x: Tensor) -> Tensor:
    if x.dim() == 0:
        return x.reshape(1, 1)
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _ratio(difference: float, reference: float) -> float:
    if reference > 0.0:
        return difference / reference
    return 0.0 if difference == 0.0 else math.inf


def _unravel(flat: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))
