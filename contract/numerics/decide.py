"""From explanations with their distances to a verdict on one observed tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from contract.numerics.explanations import Attribution, Explanation, Kind
from contract.numerics.sinks import RowSummary
from contract.numerics.tolerance import Tolerance

MARGIN: Final = 0.5
"""A match is at most this share of its runner-up's distance."""
_EXACT: Final = RowSummary(rows=0, median=0.0, worst=0.0, worst_row=None, sinks=())


def trivial(observed_TH: Tensor) -> Attribution | None:
    """The verdict on a tensor that needs no candidates: an empty one, or one in which every value is zero."""
    if observed_TH.dim() != 2 or observed_TH.numel() == 0:
        return _alone(None, f"there is nothing to compare: shape {list(observed_TH.shape)}")
    if not bool(observed_TH.any()):  # NaN counts as a value
        return _alone(_without_candidate("zeros", Kind.ZEROS, "every value is zero", len(observed_TH)), "every value is zero")
    return None


def decide(
    observed_TH: Tensor,
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
    # Half of the columns of a state that is right but for a few rows is no story of its own.
    mostly = {e.name for _, e in found if e.kind is Kind.IDENTITY and e.median <= tolerance.median}
    found = [(t, e) for t, e in found if not (e.kind is Kind.HALF and e.name in mostly)]
    fitting = sorted(((t, e) for t, e in found if _within(e, tolerance)), key=lambda te: (te[0], te[1].median))
    notes = _notes(observed_TH)
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


def _notes(observed_TH: Tensor) -> str:
    """Rows that no candidate can explain, in words to append."""
    bad_T = ~torch.isfinite(observed_TH).all(dim=1)
    zero_T = ~observed_TH.any(dim=1)
    words = ""
    for mask_T, what in ((bad_T, "hold values that are not finite"), (zero_T, "are zero")):
        if n := int(mask_T.sum()):
            words += f"; {n} of {len(observed_TH)} rows {what}, the first is row {int(mask_T.nonzero()[0])}"
    return words


def _without_candidate(name: str, kind: Kind, text: str, rows: int) -> Explanation:
    return Explanation(name=name, kind=kind, transform=text, amount=None, summary=_EXACT, rows_observed=rows)


def _alone(best: Explanation | None, reason: str) -> Attribution:
    return Attribution(best, None, best is not None, False, (), (), (), reason)
