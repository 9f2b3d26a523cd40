"""Attribution: which of many named candidates an observed tensor is, and by what margin.

All candidates are screened on a sample of rows, by plain differences (a matrix product would be blind below about 3e-4, where
|a|² - 2ab + |b|² cancels), and only those that could still be the best or its runner-up are compared on every row. A story that needs
no transform is believed first; transforms are tried only when no candidate fits as it is (``transforms``), and rearranged rows only
when those fail too (``rearranged``).

A match needs the median and the worst row within tolerance, sinks by themselves within that of the worst row, and a distance at most
half the runner-up's. Otherwise it is ambiguous, with all names that it cannot be told from.

Legend: T rows of the observed tensor, R sampled rows, H columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from contract.numerics.accumulate import row_norms
from contract.numerics.decide import Oddities, decide, trivial
from contract.numerics.explanations import Attribution, Explanation
from contract.numerics.rearranged import REARRANGED
from contract.numerics.sinks import sink_mask, summarise
from contract.numerics.statistics import compare
from contract.numerics.tolerance import Tolerance
from contract.numerics.transforms import DERIVED, FOREIGN, IDENTITY, ROTATED, Pair, Transform, own_transforms

SCREEN_ROWS: Final = 16
"""Enough for a median that only ranks; whoever might win or come second is compared on every row."""
FINALISTS: Final = 2
"""Candidates compared on every row however far they are: the best and its runner-up."""
KEEP_FACTOR: Final = 4.0
"""Besides these, every candidate whose sampled median is within this many tolerances."""
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A tensor that the observed one might be.

    Attributes:
        name: how it is called in the verdict; unique.
        load: gives the tensor [T, H], on the device of the observed ones. Called once for the screening and once for each time that it
            gets into the final round, so that not all candidates need to be held (a memory-mapped file suits).
        foreign: it belongs to another document, so that its length may differ; only considered when no own candidate fits.
        derived: it is computed from others, by a fault that one wants to name (a branch without the residual); considered likewise.
    """

    name: str
    load: Callable[[], Tensor]
    foreign: bool = False
    derived: bool = False


@dataclass(slots=True, eq=False)
class _Search:
    """One observed tensor [T, H], the numbers [R] of its sampled rows, these rows in float32 [R, H], and what is known of it."""

    observed: Tensor
    rows: Tensor
    sample: Tensor
    odd: Oddities
    done: Attribution | None
    screened: list[tuple[float, int, Transform]] = field(default_factory=list)
    found: list[tuple[int, Explanation]] = field(default_factory=list)
    considered: dict[str, None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def fits(self, tolerance: Tolerance) -> bool:
        return any(tolerance.allows(e.median, e.worst, e.summary.worst_sink) for _, e in self.found)


def attribute(
    observed: Tensor,
    candidates: Sequence[Candidate],
    tolerance: Tolerance,
    *,
    norm_weights: Mapping[str, Tensor] | None = None,
) -> Attribution:
    """``attribute_all`` for one observed tensor."""
    return attribute_all({"observed": observed}, candidates, tolerance, norm_weights=norm_weights)["observed"]


def attribute_all(
    observed: Mapping[str, Tensor],
    candidates: Sequence[Candidate],
    tolerance: Tolerance,
    *,
    norm_weights: Mapping[str, Tensor] | None = None,
) -> dict[str, Attribution]:
    """Find for each observed tensor the candidate it is, in one pass over the candidates.

    Args:
        observed: tensors [T, H] by name; they may differ in T.
        candidates: what they might be; names are unique.
        tolerance: how far a match may be.
        norm_weights: weights [H] of norms that may have been applied to a candidate, by name (the target's final norm).

    Returns:
        An attribution for every name in ``observed``, in its order.
    """
    searches = {name: _start(x) for name, x in observed.items()}
    transforms = own_transforms(norm_weights or {})
    rounds: tuple[Callable[[Candidate], Iterable[Transform]], ...] = (
        lambda c: () if c.foreign or c.derived else (IDENTITY,),
        lambda c: (FOREIGN,) if c.foreign else (DERIVED,) if c.derived else transforms,
        lambda c: () if c.foreign or c.derived else (REARRANGED, ROTATED),
    )
    for choose in rounds:
        open_ones = [s for s in searches.values() if s.done is None and not s.fits(tolerance)]
        if open_ones:
            _round(open_ones, candidates, choose, tolerance)
    return {name: s.done or _conclude(s, tolerance) for name, s in searches.items()}


def _start(x_TH: Tensor) -> _Search:
    x_TH = x_TH.detach()
    odd = Oddities.of(x_TH)
    done = trivial(x_TH, odd)
    if done is not None:
        return _Search(x_TH, torch.empty(0, dtype=torch.int64), x_TH.new_empty(0, 0), odd, done)
    ordinary = (~sink_mask(odd.norms)).nonzero().flatten()
    if ordinary.numel() > SCREEN_ROWS:
        ordinary = ordinary[torch.linspace(0, ordinary.numel() - 1, SCREEN_ROWS).round().long()]
    rows_R = ordinary.to(x_TH.device)
    return _Search(x_TH, rows_R, x_TH[rows_R].float(), odd, None)


def _round(
    searches: Sequence[_Search],
    candidates: Sequence[Candidate],
    choose: Callable[[Candidate], Iterable[Transform]],
    tolerance: Tolerance,
) -> None:
    for s in searches:
        s.screened.clear()
    for i, candidate in enumerate(candidates):
        transforms = tuple(choose(candidate))
        if not transforms:
            continue
        c_SH = candidate.load().detach()
        samples: list[tuple[Tensor, Tensor, Tensor]] = []
        for s in searches:
            _screen(s, i, candidate, c_SH, transforms, samples)
    for s in searches:
        s.screened.sort(key=lambda entry: entry[0])
    wanted = [_finalists(s.screened, KEEP_FACTOR * tolerance.median) for s in searches]
    for i in sorted({i for entries in wanted for _, i, _ in entries}):
        c_SH = candidates[i].load().detach()
        for s, entries in zip(searches, wanted, strict=True):
            for transform in (t for _, j, t in entries if j == i):
                _compare_all_rows(s, candidates[i], c_SH, transform)


def _finalists(ranked: Sequence[tuple[float, int, Transform]], near: float) -> list[tuple[float, int, Transform]]:
    """The best stories of different candidates and whatever is near; of other transforms of these candidates the best ones."""
    names: set[int] = set()
    kept = []
    for k, entry in enumerate(ranked):
        fresh = entry[1] not in names and len(names) < FINALISTS
        if fresh or entry[0] <= near or (k <= FINALISTS and entry[2] is not IDENTITY):
            kept.append(entry)
            names.add(entry[1])
    return kept


def _screen(
    s: _Search, i: int, candidate: Candidate, c_SH: Tensor, transforms: Iterable[Transform], samples: list[tuple[Tensor, Tensor, Tensor]]
) -> None:
    if c_SH.dim() != 2:
        s.left_out.setdefault(candidate.name, f"shape {list(c_SH.shape)} is no [rows, columns]")
        return
    for transform in transforms:
        if transform is IDENTITY:
            if c_SH.shape == s.observed.shape:
                s.screened.append((_sampled_median(s.sample, *_sample(c_SH, s.rows, samples)), i, transform))
                s.considered[candidate.name] = None
            continue
        pair = transform.align(s.observed, c_SH, s.rows)
        if pair is not None:
            c_RH = pair.candidate.float()
            s.screened.append((_sampled_median(pair.observed.float(), c_RH, row_norms(c_RH)), i, transform))
            s.considered[candidate.name] = None
    if candidate.name not in s.considered:
        s.left_out[candidate.name] = f"shape {list(c_SH.shape)} against {list(s.observed.shape)}"
    else:
        s.left_out.pop(candidate.name, None)


def _sample(c_SH: Tensor, rows_R: Tensor, samples: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The candidate's sampled rows in float32, and their norms; slots that sample the same rows share them."""
    for rows, sample_RH, norm_R in samples:
        if torch.equal(rows, rows_R):
            return sample_RH, norm_R
    sample_RH = c_SH[rows_R].float()
    samples.append((rows_R, sample_RH, row_norms(sample_RH)))
    return samples[-1][1:]


def _sampled_median(o_RH: Tensor, c_RH: Tensor, norm_R: Tensor) -> float:
    """Median relative error of sampled float32 rows; a sink or two among them does not move it."""
    error_R = row_norms(o_RH - c_RH) / norm_R
    if not math.isfinite(float(error_R.sum())) or not float(norm_R.min()) > _TINY:  # NaN compares false
        return summarise(compare(o_RH, c_RH, histogram=False).rows).median
    return float(error_R.kthvalue(error_R.numel() // 2 + 1).values)


def _compare_all_rows(s: _Search, candidate: Candidate, c_SH: Tensor, transform: Transform) -> None:
    pair: Pair | None = transform.align(s.observed, c_SH, None)
    if pair is None:
        return
    rows = compare(pair.observed, pair.candidate, histogram=False).rows
    explanation = Explanation(
        name=candidate.name,
        kind=transform.kind,
        transform=pair.text,
        amount=pair.amount,
        summary=summarise(rows, first_row=pair.first_row),
        rows_observed=len(s.observed),
    )
    s.found.append((transform.tier, explanation))


def _conclude(s: _Search, tolerance: Tolerance) -> Attribution:
    return decide(s.observed, s.odd, s.found, tolerance, considered=tuple(s.considered), left_out=tuple(s.left_out.items()))
