"""From explanations with their distances to a verdict on one observed tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.numerics.explanations import Attribution, Explanation, Kind
from contract.numerics.sinks import RowSummary
from contract.numerics.tolerance import Tolerance

MARGIN: Final = 0.5
"""A match is at most this share of its runner-up's distance."""
_ALL_ROWS: Final = (Kind.HALF, Kind.SWAPPED_HALVES, Kind.SCALED, Kind.RMS_NORM, Kind.ROTATED)
_EXACT: Final = RowSummary(rows=0, median=0.0, worst=0.0, worst_row=None, sinks=())


@dataclass(frozen=True, slots=True, eq=False)
class Oddities:
    """Row norms (float64 [T], CPU) of an observed tensor, and its rows that no candidate can explain."""

    norms: Tensor
    not_finite: tuple[int, ...]
    zero: tuple[int, ...]

    @classmethod
    def of(cls, x_TH: Tensor) -> Oddities:
        """Of any tensor; one that has no rows and columns has no oddities either."""
        if x_TH.dim() != 2 or x_TH.numel() == 0:
            return cls(torch.empty(0, dtype=torch.float64), (), ())
        norm_T = torch.linalg.vector_norm(x_TH.float(), dim=1).double().cpu()
        # Squares overflow and underflow before values do: the rows in question are looked at.
        large = (~torch.isfinite(norm_T)).nonzero().flatten().tolist()
        small = (norm_T == 0.0).nonzero().flatten().tolist()
        return cls(
            norm_T,
            tuple(i for i in large if not bool(torch.isfinite(x_TH[i]).all())),
            tuple(i for i in small if not bool(x_TH[i].any())),
        )

    def __str__(self) -> str:
        """In words to append to a sentence; empty if there are none."""
        found = ((self.not_finite, "hold values that are not finite"), (self.zero, "are zero"))
        return "".join(f"; {len(rows)} of {len(self.norms)} rows {what}, the first is row {rows[0]}" for rows, what in found if rows)


def trivial(observed_TH: Tensor, odd: Oddities) -> Attribution | None:
    """The verdict on a tensor that needs no candidates: an empty one, or one in which every value is zero."""
    if observed_TH.dim() != 2 or observed_TH.numel() == 0:
        return _alone(None, f"there is nothing to compare: shape {list(observed_TH.shape)}")
    if len(odd.zero) == len(observed_TH):
        return _alone(_without_candidate("zeros", Kind.ZEROS, "every value is zero", len(observed_TH)), "every value is zero")
    return None


def decide(
    observed_TH: Tensor,
    odd: Oddities,
    found: Sequence[tuple[int, Explanation]],
    tolerance: Tolerance,
    *,
    considered: tuple[str, ...],
    left_out: tuple[tuple[str, str], ...],
) -> Attribution:
    """The verdict, from all explanations with their tiers.

    Among those within tolerance the lowest tier wins, then the smallest median; rivals are explanations by another name (or another
    shift in time) of the same or a lower tier.
    """
    # What holds for all rows alike is no story about a state that is right but for a few rows.
    mostly = {e.name for _, e in found if e.kind is Kind.IDENTITY and e.median <= tolerance.median}
    found = [(t, e) for t, e in found if not (e.kind in _ALL_ROWS and e.name in mostly)]
    fitting = sorted(((t, e) for t, e in found if _within(e, tolerance)), key=lambda te: (te[0], te[1].median))
    notes = str(odd)
    if not fitting and _constant(observed_TH):
        best = _without_candidate("one repeated row", Kind.CONSTANT, "every row is the same", len(observed_TH))
        reason = f"every row is the same, and no candidate's{notes}"
        return Attribution(best, _nearest(found), True, False, (), considered, left_out, reason)
    if not fitting:
        return _unexplained(found, tolerance, considered, left_out, notes)
    tier, best = fitting[0]
    others = sorted((e for t, e in found if t <= tier and _is_rival(e, best)), key=lambda e: e.median)
    runner_up = others[0] if others else None
    rivals = tuple(e for e in others if not _told_apart(best, e, tolerance))
    if rivals:
        names = ", ".join(f"{e} (median {e.median:.2g})" for e in rivals)
        reason = f"{_figures(best)} cannot be told from {names}{notes}"
        return Attribution(best, runner_up, False, True, rivals, considered, left_out, reason)
    margin = f"; next best {runner_up} at {runner_up.median:.2g}" if runner_up is not None else "; nothing else to compare with"
    return Attribution(best, runner_up, True, False, (), considered, left_out, f"{_figures(best)}{margin}{notes}")


def _unexplained(
    found: Sequence[tuple[int, Explanation]],
    tolerance: Tolerance,
    considered: tuple[str, ...],
    left_out: tuple[tuple[str, str], ...],
    notes: str,
) -> Attribution:
    best = _nearest(found)
    if best is None:
        return Attribution(None, None, False, False, (), considered, left_out, f"there is no candidate to compare with{notes}")
    runner_up = _nearest([(t, e) for t, e in found if e.name != best.name])
    if best.median > tolerance.median:
        reason = f"nothing explains it within {tolerance.median:.2g}; nearest is {_figures(best)}"
    elif best.worst > tolerance.worst:
        reason = f"nearest is {_figures(best)}: the median is within {tolerance.median:.2g}, that row is not within {tolerance.worst:.2g}"
    else:
        sink = max(best.sinks, key=lambda s: s.error)
        reason = f"nearest is {_figures(best)}: the sink in row {sink.row} is off by {sink.error:.2g} > {tolerance.worst:.2g}"
    if runner_up is not None:
        reason += f"; next best {runner_up} at {runner_up.median:.2g}"
    return Attribution(best, runner_up, False, False, (), considered, left_out, reason + notes)


def _nearest(found: Sequence[tuple[int, Explanation]]) -> Explanation | None:
    """The nearest explanation; one with a transform only if it at least halves the distance of the nearest without."""
    ranked = sorted((e for _, e in found), key=lambda e: e.median)
    plain = [e for e in ranked if e.kind is Kind.IDENTITY]
    if plain and not ranked[0].median <= MARGIN * plain[0].median:
        return plain[0]
    return ranked[0] if ranked else None


def _within(e: Explanation, tolerance: Tolerance) -> bool:
    return tolerance.allows(e.median, e.worst, e.summary.worst_sink)


def _told_apart(best: Explanation, other: Explanation, tolerance: Tolerance) -> bool:
    """``best`` is at most half as far as the other: in the median, or in the row that puts the other beyond tolerance."""
    if other.median > 0.0 and best.median <= MARGIN * other.median:
        return True
    return not _within(other, tolerance) and _extreme(best) <= MARGIN * _extreme(other)


def _extreme(e: Explanation) -> float:
    return max(e.worst, e.summary.worst_sink)


def _is_rival(e: Explanation, best: Explanation) -> bool:
    return e.name != best.name or (e.kind is best.kind is Kind.SHIFT and e.amount != best.amount)


def _figures(e: Explanation) -> str:
    row = f", worst {e.worst:.2g} in row {e.worst_row}" if e.worst_row is not None else ""
    return f"{e} (median {e.median:.2g}{row})"


def _constant(observed_TH: Tensor) -> bool:
    return len(observed_TH) > 1 and bool((observed_TH == observed_TH[:1]).all())


def _without_candidate(name: str, kind: Kind, text: str, rows: int) -> Explanation:
    return Explanation(name=name, kind=kind, transform=text, amount=None, summary=_EXACT, rows_observed=rows)


def _alone(best: Explanation | None, reason: str) -> Attribution:
    return Attribution(best, None, best is not None, False, (), (), (), reason)
