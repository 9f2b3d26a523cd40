"""The check of the engine's layers: distances to our forward, and what explains them.

Legend: M rows of a request, U used ones, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from contract.findings import Json
from contract.numerics.tolerance import NoTolerance, Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.bounds import Floor, bound
from eagle3_contract.verify.engine_drafter.explain import MARGIN, Explainer, Story, Trial, without_hole
from eagle3_contract.verify.engine_drafter.forwards import TENSORS, Distances, apart, distances, run
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.variants import Variant

NEAREST: Final = 5
"""Hypotheses that the evidence lists."""


@dataclass(slots=True)
class Compared:
    """The measurement per tensor, the story where rows differ, and our own final state [M, H] of every row by request."""

    measurement: dict[str, Json]
    story: Story | None = None
    finals: dict[str, Tensor] = field(default_factory=dict)


def layers(
    subjects: Sequence[Subject],
    base: Drafter,
    rounded: Drafter | None,
    *,
    dtype: str,
    limit: float | None,
    variants: Callable[[], Iterable[Variant]],
    build: Callable[[Variant], Drafter],
    ledger: Ledger,
) -> Compared:
    """Compare every used row of every request.

    Args:
        subjects: all requests.
        base: the drafter under the contract, float32.
        rounded: the same in the engine's dtype, if that has 16 bits.
        dtype: of the engine.
        limit: the contract's tolerance for what the drafter computes.
        variants: other wirings; made only if something differs.
        build: loads the drafter under one.
        ledger: takes the findings.
    """
    found: list[tuple[Subject, Distances]] = []
    finals: dict[str, Tensor] = {}
    floors: dict[str, list[Tensor]] = {name: [] for name in TENSORS}
    for subject in subjects:
        if subject.problem is not None:
            ledger.unknown(rules.FORWARD, subject.problem, sum(1 for _ in subject.used()))
            continue
        ours = run(base, subject)
        d = distances(subject, ours)
        found.append((subject, d))
        finals[subject.recorded.id] = ours.final_NH
        if rounded is not None:
            for name, errors in apart(run(rounded, subject), ours, d.rows).items():
                floors[name].append(errors)
    bounds, measurement = _bounds(floors, rounded is not None, dtype, base.wiring.layers, limit)
    recorded = {name for _, d in found for name in d.errors}
    for name in TENSORS:
        tolerance = bounds[name]
        if isinstance(tolerance, NoTolerance):
            ledger.unknown(rules.FORWARD, f"{name}: {tolerance.reason}", sum(len(d.rows) for _, d in found))
        elif found and name not in recorded:
            ledger.unknown(rules.FORWARD, f"{name} was not recorded", sum(len(d.rows) for _, d in found))
    usable = {name: t for name, t in bounds.items() if isinstance(t, Tolerance)}
    kept = [(s, Distances(d.rows, {n: e for n, e in d.errors.items() if n in usable})) for s, d in found]
    kept = [(s, d) for s, d in kept if d.errors]
    _measure(kept, measurement)
    failing = [(s, d) for s, d in kept if bool(d.beyond(usable).any())]
    for subject, d in kept:
        for i in d.rows[~d.beyond(usable)].tolist():
            ledger.compared(rules.FORWARD, subject.place(subject.account.rows[i]))
    if not failing:
        figures = "; ".join(f"{n}: median {m['median']:.2g}, worst {m['worst']:.2g}" for n, m in measurement.items() if "median" in m)
        ledger.says(rules.FORWARD, figures)
        return Compared(measurement, None, finals)
    unexplained = [(s, d) for s, d in failing if bool((d.beyond(usable) & without_hole(s)).any())]
    story = Explainer(usable, base, build).explain(unexplained, variants(), [s for s, _ in kept]) if unexplained else Story()
    _report(failing, usable, story, base, build, ledger)
    return Compared(measurement, story, finals)


def _bounds(
    floors: dict[str, list[Tensor]], measured: bool, dtype: str, depth: int, limit: float | None
) -> tuple[dict[str, Tolerance | NoTolerance], dict[str, Json]]:
    bounds: dict[str, Tolerance | NoTolerance] = {}
    measurement: dict[str, Json] = {}
    for name in TENSORS:
        floor = Floor.of(torch.cat(floors[name])) if measured and floors[name] else None
        bounds[name] = tolerance = bound(dtype, depth, floor, limit)
        measurement[name] = {} if floor is None else {"floor": {"median": floor.median, "worst": floor.worst}}
        if isinstance(tolerance, Tolerance):
            measurement[name]["bound"] = {"median": tolerance.median, "worst": tolerance.worst, "source": tolerance.source}
    return bounds, measurement


def _measure(found: Sequence[tuple[Subject, Distances]], measurement: dict[str, Json]) -> None:
    for name in TENSORS:
        parts = [d.errors[name][~d.errors[name].isnan()] for _, d in found if name in d.errors]
        errors = torch.cat(parts) if parts else torch.empty(0)
        if errors.numel():
            measurement[name] |= {"rows": errors.numel(), "median": float(errors.median()), "worst": float(errors.max())}


def _report(
    failing: Sequence[tuple[Subject, Distances]],
    bounds: dict[str, Tolerance],
    story: Story,
    base: Drafter,
    build: Callable[[Variant], Drafter],
    ledger: Ledger,
) -> None:
    """Each failing row under the rule of what explains it."""
    wired = base if story.wiring is None or story.wiring.variant is None else build(story.wiring.variant)
    for subject, d in failing:
        left = d.beyond(bounds)
        by_wiring = torch.zeros_like(left)
        if story.wiring is not None:
            by_wiring = left & ~distances(subject, run(wired, subject)).beyond(bounds)
        by_cache = torch.zeros_like(left)
        if story.cache is not None and story.cache.attempt is not None:
            out = story.cache.attempt.run(wired, subject)
            if out is not None:
                by_cache = left & ~by_wiring & ~distances(subject, out).beyond(bounds)
        for u in left.nonzero().flatten().tolist():
            row = subject.account.rows[int(d.rows[u])]
            name = next(n for n in TENSORS if n in d.errors and bool(d.errors[n][u] > d.threshold(n, bounds)))
            says = f"{float(d.errors[name][u]):.2g} of its length apart, bound {d.threshold(name, bounds):.2g}"
            place = subject.place(row)
            if bool(by_wiring[u]) and story.wiring is not None:
                cause = f"is not what the contract's wiring gives; {story.wiring.words} gives it"
                rule, trial, fix = rules.WIRING, story.wiring, story.wiring.because or None
            elif subject.account.hole_before(row):
                cause = (
                    "is not what the rows that ran give: committed rows before it never ran, and the engine reads what stood in their slots"
                )
                rule, trial, fix = rules.KV, None, "See engine.rows-accounted for the rows that never ran."
            elif bool(by_cache[u]) and story.cache is not None:
                cause = f"is not what the right rows of the cache give; a row gives it that {story.cache.words}"
                rule, trial, fix = rules.KV, story.cache, story.cache.because or None
            else:
                cause = f"is not what our layers give on the engine's own inputs, and none of {len(story.trials)} hypotheses gives it"
                rule, trial, fix = rules.FORWARD, None, None
            ledger.compared(rule, place)
            evidence = _evidence(story, trial)
            ledger.differs(rule, Difference(place=place, tensor=name, cause=cause, says=says, fix=fix, evidence=evidence))


def _evidence(story: Story, trial: Trial | None) -> dict[str, Json]:
    others = story.trials if trial is None else story.besides(trial)
    evidence: dict[str, Json] = {"nearest": [_figures(t) for t in others[:NEAREST]], "tried": len(story.trials)}
    if trial is not None:
        rivals = [t.words for t in others if t.fits or not trial.median <= MARGIN * t.median]
        evidence |= {"explanation": _figures(trial), "rivals": rivals, "because": trial.because}
    return evidence


def _figures(trial: Trial) -> dict[str, Json]:
    return {"hypothesis": trial.words, "median": trial.median, "worst": trial.worst, "fits": trial.fits}
