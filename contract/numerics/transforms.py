"""What may have happened to a state on its way: each transform of a candidate that attribution tries.

A transform aligns an observed tensor with a candidate and gives two tensors of one shape to compare, either for all rows or for some
sampled ones. Transforms stand in tiers; a lower tier is the simpler story and is believed first.

Legend: T rows of the observed tensor, S rows of the candidate, R rows compared, H columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.numerics.explanations import Kind

SHIFTS: Final = (1, -1, 2, -2)
MIN_ROWS_FOR_FIT: Final = 16
"""Rows needed to fit one weight per column: a fit to unrelated rows leaves a relative error of sqrt(1 - 1/rows)."""
ROWS_FOR_ANGLES: Final = 512
"""Rows between which angles are compared; their number grows with the square."""
LEAST_SCALE: Final = 1e-6
"""A smaller factor is no scaling but an absence."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two tensors [R, H] to compare; ``first_row`` is the observed row that their first one is (for all rows only)."""

    observed: Tensor
    candidate: Tensor
    text: str
    first_row: int = 0
    amount: float | None = None


Align = Callable[[Tensor, Tensor, Tensor | None], Pair | None]
"""(observed [T, H], candidate [S, H], observed row numbers [R] or None for all) -> a pair, or None where it does not apply."""


@dataclass(frozen=True, slots=True)
class Transform:
    kind: Kind
    tier: int
    align: Align


def own_transforms(norm_weights: Mapping[str, Tensor]) -> tuple[Transform, ...]:
    """Everything tried on the states of the same document, once no candidate fits as it is.

    Args:
        norm_weights: weights [H] of norms that may have been applied, by name; a weight of any value per column is tried too.
    """
    return (
        Transform(Kind.PREFIX, 1, _prefix),
        *(Transform(Kind.SHIFT, 1, _shift(k)) for k in SHIFTS),
        Transform(Kind.REVERSED, 2, _reversed),
        Transform(Kind.HALF, 2, _half(first=True)),
        Transform(Kind.HALF, 2, _half(first=False)),
        Transform(Kind.SWAPPED_HALVES, 2, _swapped_halves),
        Transform(Kind.SCALED, 2, _scaled),
        Transform(Kind.RMS_NORM, 2, _rms(None, "RMS-normalised")),
        *(Transform(Kind.RMS_NORM, 2, _rms(w_H, f"RMS-normalised with {name}")) for name, w_H in norm_weights.items()),
        Transform(Kind.RMS_NORM, 3, _fitted_rms),
    )


def _rows(x: Tensor, rows: Tensor | None) -> Tensor:
    return x if rows is None else x[rows]


def _identity(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    return Pair(_rows(o_TH, rows), _rows(c_SH, rows), "unchanged") if o_TH.shape == c_SH.shape else None


def _overlap(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None, text: str) -> Pair | None:
    """The common rows, if they are at least half of the observed ones (a shared system prompt proves nothing)."""
    n = min(len(o_TH), len(c_SH))
    if o_TH.shape[1:] != c_SH.shape[1:] or n == 0 or 2 * n < len(o_TH):
        return None
    words = text if n == len(o_TH) else f"{text}, rows 0 to {n - 1} compared"
    if rows is None:
        return Pair(o_TH[:n], c_SH[:n], words)
    kept = rows[rows < n]
    return Pair(o_TH[kept], c_SH[kept], words) if kept.numel() else None


def _prefix(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    if len(o_TH) == len(c_SH):
        return None
    return _overlap(o_TH, c_SH, rows, f"{len(o_TH)} rows against {len(c_SH)}")


def _foreign(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    return _overlap(o_TH, c_SH, rows, "of another document")


def _shift(k: int) -> Align:
    text = f"{abs(k)} row{'s' if abs(k) > 1 else ''} {'late' if k > 0 else 'early'}"

    def align(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
        T = len(o_TH)
        if o_TH.shape != c_SH.shape or abs(k) >= T:
            return None
        if rows is None:
            low, high = max(0, k), min(T, T + k)
            return Pair(o_TH[low:high], c_SH[low - k : high - k], text, first_row=low, amount=float(k))
        kept = rows[(rows - k >= 0) & (rows - k < T)]
        return Pair(o_TH[kept], c_SH[kept - k], text, amount=float(k)) if kept.numel() else None

    return align


def _reversed(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    if o_TH.shape != c_SH.shape or len(o_TH) < 2:
        return None
    at = torch.arange(len(o_TH), device=o_TH.device) if rows is None else rows
    return Pair(_rows(o_TH, rows), c_SH[len(o_TH) - 1 - at], "rows in reverse order")


def _half(*, first: bool) -> Align:
    which = "first" if first else "second"

    def align(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
        if len(o_TH) != len(c_SH) or c_SH.shape[1] % 2:
            return None
        h = c_SH.shape[1] // 2
        mine, other = (slice(0, h), slice(h, None)) if first else (slice(h, None), slice(0, h))
        if o_TH.shape[1] == h:
            return Pair(_rows(o_TH, rows), _rows(c_SH[:, mine], rows), f"only the {which} half of the columns, as on one rank")
        if o_TH.shape != c_SH.shape:
            return None
        rest = "zero" if not bool(_rows(o_TH[:, other], rows).any()) else "different"
        text = f"only the {which} half of the columns, the rest is {rest}"
        return Pair(_rows(o_TH[:, mine], rows), _rows(c_SH[:, mine], rows), text)

    return align


def _swapped_halves(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    if o_TH.shape != c_SH.shape or c_SH.shape[1] % 2:
        return None
    low_RH, high_RH = _rows(c_SH, rows).chunk(2, dim=1)
    return Pair(_rows(o_TH, rows), torch.cat([high_RH, low_RH], dim=1), "the two halves of the columns swapped")


def _scaled(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    """One factor for all rows: the median of the rows' best ones, so that a sink does not decide it."""
    if o_TH.shape != c_SH.shape:
        return None
    o_RH, c_RH = _rows(o_TH, rows).float(), _rows(c_SH, rows).float()
    s_R = torch.linalg.vecdot(o_RH, c_RH) / torch.linalg.vecdot(c_RH, c_RH)
    s_R = s_R[torch.isfinite(s_R)]
    if s_R.numel() == 0 or abs(factor := float(s_R.median())) < LEAST_SCALE:
        return None
    return Pair(o_RH, c_RH * factor, f"scaled by {factor:.4g}", amount=factor)


def _normalised(c_RH: Tensor) -> Tensor:
    c_RH = c_RH.float()
    # A zero row stays zero instead of becoming NaN; any real eps is far below the mean square of a state.
    inverse_R1: Tensor = c_RH.shape[1] ** 0.5 / torch.linalg.vector_norm(c_RH, dim=1, keepdim=True).clamp_min(1e-15)
    return c_RH * inverse_R1


def _rms(weight_H: Tensor | None, text: str) -> Align:
    def align(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
        if o_TH.shape != c_SH.shape or (weight_H is not None and weight_H.shape != c_SH.shape[1:]):
            return None
        n_RH = _normalised(_rows(c_SH, rows))
        if weight_H is not None:
            n_RH = n_RH * weight_H.to(n_RH)
        return Pair(_rows(o_TH, rows).float(), n_RH, text)

    return align


def _fitted_rms(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    """Normalised and multiplied by a weight per column that is fitted here: a norm whose weights nobody gave."""
    if o_TH.shape != c_SH.shape or (len(o_TH) if rows is None else rows.numel()) < MIN_ROWS_FOR_FIT:
        return None
    o_RH, n_RH = _rows(o_TH, rows).float(), _normalised(_rows(c_SH, rows))
    weight_H = (o_RH * n_RH).sum(dim=0) / n_RH.square().sum(dim=0).clamp_min(1e-30)
    return Pair(o_RH, n_RH * weight_H, "RMS-normalised with weights of its own")


def _rotated(o_TH: Tensor, c_SH: Tensor, rows: Tensor | None) -> Pair | None:
    """An orthogonal change of basis (a quantisation that rotates the stream), or rearranged columns: what stays are the angles between
    rows. The pair is the cosines [R, R] between the rows of each side, without the diagonal, which is 1 for anything."""
    if o_TH.shape != c_SH.shape or len(o_TH) < MIN_ROWS_FOR_FIT:
        return None
    o_RH, c_RH = (_rows(x, rows)[:ROWS_FOR_ANGLES] for x in (o_TH, c_SH))
    o_RR, c_RR = ((n_RH @ n_RH.T / n_RH.shape[1]).fill_diagonal_(0.0) for n_RH in (_normalised(o_RH), _normalised(c_RH)))
    return Pair(o_RR, c_RR, "in another basis: rotated, or its columns rearranged")


IDENTITY: Final = Transform(Kind.IDENTITY, 0, _identity)
FOREIGN: Final = Transform(Kind.FOREIGN, 1, _foreign)
DERIVED: Final = Transform(Kind.DERIVED, 1, _identity)
ROTATED: Final = Transform(Kind.ROTATED, 3, _rotated)
