"""The noise floor of an engine: how far the same rows are apart when the same prompts run again, in a batch, behind a cache, in chunks.

A kernel adds up in another order when the shape of its batch is another one: that is noise, and it is bounded by the dtype. What is beyond
the dtype's bound is no noise but a finding about the engine. The floor widens the tolerances of the comparison with training, never beyond
the caps of policy and contract. Runs that have a finding are left out of the floor, for a fault must not excuse itself; but the runs
``again`` and ``batched`` always count: there the engine differs from itself.

Legend: N rows in common, G width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from contract.files.bundle import Bundle
from contract.files.bundle_manifest import FINAL_NORM as FINAL_NORM_TENSOR
from contract.findings import Check, Depth, Json, Where
from contract.numerics.sinks import RowSummary, summarise_errors
from contract.numerics.tolerance import ROUNDING, NoTolerance, Tolerance, tolerance_for
from eagle3_contract.verify.divergence import bound_for
from eagle3_contract.verify.engine_runs import rules
from eagle3_contract.verify.engine_runs.rows import PLAIN
from eagle3_contract.verify.engine_runs.twins import OF_DRAFTER, Apart, Place, Twins, alone, runs_of, twins

ALWAYS: Final = ("again", "batched")
"""Runs that differ by noise alone: the same program on the same tokens."""
SLOTS: Final = "slots"
DRAFTER_LAYERS: Final = 2
"""Depth that the drafter's own tensors are bounded with: its layer, and fc or the norm and head around it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Measured noise of one tensor: median and worst row over all pairs, and where the worst one is."""

    rows: int
    median: float
    worst: float
    request: str
    row: int

    def as_json(self) -> dict[str, Json]:
        return {"rows": self.rows, "median": self.median, "worst": self.worst, "worst_row": {"request": self.request, "row": self.row}}


@dataclass(slots=True)
class Measured:
    """One tensor of one run over all its prompts."""

    run: str
    name: str
    pairs: list[tuple[Twins, Apart]] = field(default_factory=list)
    beyond: list[tuple[Twins, Apart, Tolerance | NoTolerance]] = field(default_factory=list)


def floor_of(pairs: Sequence[tuple[Twins, Apart]]) -> Floor | None:
    """The floor over some pairs; sinks count in the worst row. None without a row."""
    if not pairs:
        return None
    rows = [a.rows for _, a in pairs]
    whole = summarise_errors(*(torch.cat(x) for x in zip(*((r.error, r.norm_a, r.norm_b) for r in rows), strict=True)))
    top, pair, at = max(((float(a.rows.error.max()), p, a) for p, a in pairs), key=lambda found: found[0])
    return Floor(whole.rows, whole.median, max(whole.worst, top), pair.other.id, at.places[int(at.rows.error.argmax())].row)


class Noise:
    """What the further runs of a bundle say about the engine."""

    def __init__(self, bundle: Bundle, *, shift: int, longest: int | None = None) -> None:
        """Measures; every pair of tensors is read once.

        Args:
            bundle: the capture.
            shift: the drafter's row at position p is fed token p + shift.
            longest: tokens that a sequence may have in this engine, where known.
        """
        self.bundle = bundle
        self.dtype = _coarse(bundle.manifest.engine.dtype)
        self.pairs = list(twins(bundle, shift=shift, longest=longest))
        self.alone = alone(bundle)
        self.measured: dict[tuple[str, str], Measured] = {}
        self.slots = [f"slot.{i}" for i in range(len(bundle.manifest.recipe_fed))]
        for pair in self.pairs:
            self._measure(pair)

    def _measure(self, pair: Twins) -> None:
        worst: list[RowSummary] = []
        for i, name in enumerate(self.slots):
            apart = pair.target_tensor(name)
            if apart is not None:
                worst.append(apart.summary)
                self._take(pair, apart, self.state_bound(i))
        final = pair.target_tensor(FINAL_NORM_TENSOR)
        if final is not None:
            self._take(pair, final, tolerance_for(self.dtype, layers=self.bundle.manifest.layers))
        amplified = bound_for([s.median for s in worst], [max(s.worst, s.worst_sink) for s in worst])
        for name in OF_DRAFTER:
            apart = pair.drafter_tensor(name)
            if apart is not None:
                self._take(pair, apart, _wider(tolerance_for(self.dtype, layers=DRAFTER_LAYERS), amplified))

    def _take(self, pair: Twins, apart: Apart, bound: Tolerance | NoTolerance) -> None:
        into = self.measured.setdefault((pair.other.run, apart.name), Measured(pair.other.run, apart.name))
        into.pairs.append((pair, apart))
        summary = apart.summary
        if isinstance(bound, NoTolerance) or not bound.allows(summary.median, summary.worst, summary.worst_sink):
            into.beyond.append((pair, apart, bound))

    def state_bound(self, slot: int) -> Tolerance | NoTolerance:
        """The dtype's bound for what a slot carries."""
        state = self.bundle.manifest.recipe_fed[slot]
        return tolerance_for(self.dtype, layers=self.bundle.manifest.layers if isinstance(state, str) else state)

    def floor(self, name: str) -> Floor | None:
        """The floor of a tensor (``slot.0``, ``final_norm``, ``fc_out``, ``final_normed``, ``logits``); None if no run measures it."""
        return floor_of(
            [p for m in self.measured.values() if m.name == name and (not m.beyond or m.run in ALWAYS or m.run == PLAIN) for p in m.pairs]
        )

    def as_measurement(self) -> dict[str, Json]:
        """For the report."""
        runs: dict[str, dict[str, Json]] = {}
        for m in self.measured.values():
            floor = floor_of(m.pairs)
            if floor is not None:
                equal = sum(a.equal_rows for _, a in m.pairs)
                runs.setdefault(m.run, {})[m.name] = {**floor.as_json(), "bit_equal_rows": equal, "beyond_bound": bool(m.beyond)}
        names = dict.fromkeys(m.name for m in self.measured.values())
        floors = {name: f.as_json() for name in names if (f := self.floor(name)) is not None}
        return {"what": "per-row relative distance to the plain run", "dtype": self.dtype, "runs": runs, "floor": floors}

    def checks(self) -> Iterator[Check]:
        """One check per run and kind of tensor, located where it fails."""
        for run, pairs in runs_of(self.pairs).items():
            for kind, names in ((SLOTS, self.slots), *((n, [n]) for n in (FINAL_NORM_TENSOR, *OF_DRAFTER))):
                found = [m for name in names if (m := self.measured.get((run, name))) is not None]
                if found:
                    yield self._check(run, kind, found, len(pairs))
        if self.alone:
            yield rules.RUNS_DIFFER.undecided(
                f"{len(self.alone)} requests of further runs have no plain request of the same prompt: {', '.join(self.alone[:5])}",
                at=Depth.VERIFY,
                required=False,
                fix="Let the plain run hold every prompt of the further runs.",
            )

    def _check(self, run: str, kind: str, found: Sequence[Measured], prompts: int) -> Check:
        floors = {m.name: f for m in found if (f := floor_of(m.pairs)) is not None}
        evidence: dict[str, Json] = {"run": run, "prompts": prompts, "tensors": {n: f.as_json() for n, f in floors.items()}}
        beyond = [b for m in found for b in m.beyond]
        if not beyond:
            top = max(floors.values(), key=lambda f: f.worst)
            return rules.RUNS_DIFFER.passed(
                f"run {_named(run)}: {kind} as in the plain run on {top.rows} rows (median {top.median:.2g}, worst {top.worst:.2g} in row "
                f"{top.row} of {top.request})",
                evidence=evidence,
            )
        pair, apart, bound = beyond[0]
        place, error = first_beyond(apart, bound)
        where = Where(tensor=apart.name, sample=pair.other.id, row=place.row, step=place.step, slot=_slot(apart.name))
        allowed = "no tolerance" if isinstance(bound, NoTolerance) else f"median <= {bound.median:.2g}, worst <= {bound.worst:.2g}"
        summary = apart.summary
        evidence["requests"] = [p.other.id for p, _, _ in beyond]
        boundary = self._first_boundary(pair, place)
        if boundary is not None:
            evidence["first_boundary"] = boundary
        rest = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
        return rules.RUNS_DIFFER.failed(
            f"run {_named(run)}: {apart.name} of {pair.other.id}{rest} is not the plain run's from row {place.row} on ({_fed(place)}"
            f"{_drafting(place)}{pair.other.about(place.row)}): apart by {error:.2g} there, median {summary.median:.2g}, worst "
            f"{max(summary.worst, summary.worst_sink):.2g} of {len(apart.places)} rows whose tokens are equal"
            + (f"; the first recorded boundary that differs is {boundary}" if boundary is not None else ""),
            expected=f"{allowed} ({self.dtype})",
            actual=f"median {summary.median:.3g}, worst {max(summary.worst, summary.worst_sink):.3g}",
            where=where,
            evidence=evidence,
        )

    def _first_boundary(self, pair: Twins, place: Place) -> int | None:
        """The lowest recorded boundary that differs in the row, where every boundary was recorded."""
        if place.forward >= 0:
            return None
        for n in range(self.bundle.manifest.layers + 1):
            apart = pair.target_tensor(f"boundary.{n}")
            if apart is None:
                return None
            bound = tolerance_for(self.dtype, layers=n)
            at = next((i for i, p in enumerate(apart.places) if p.row == place.row), None)
            if at is not None and (isinstance(bound, NoTolerance) or not float(apart.rows.error[at]) <= bound.worst):
                return n
        return None


def first_beyond(apart: Apart, bound: Tolerance | NoTolerance) -> tuple[Place, float]:
    """The first row beyond a bound in the order of computation: beyond the worst row's, or if none is, beyond the median's."""
    worst, median = (0.0, 0.0) if isinstance(bound, NoTolerance) else (bound.worst, bound.median)
    errors = apart.rows.error.tolist()
    limit = worst if any(not e <= worst for e in errors) else median
    order = sorted(range(len(errors)), key=lambda i: (apart.places[i].forward, apart.places[i].row))
    at = next(i for i in order if not errors[i] <= limit)
    return apart.places[at], errors[at]


def of_bundle(bundle: Bundle, *, shift: int, longest: int | None = None) -> Noise | None:
    """The noise of a bundle that holds prompts in further runs; None if it holds none."""
    if all(r.info.run == PLAIN for r in bundle.requests):
        return None
    return Noise(bundle, shift=shift, longest=longest)


def _coarse(dtype: str) -> str:
    plain = dtype.removeprefix("torch.")
    return plain if plain in ROUNDING else "bfloat16"


def _wider(a: Tolerance | NoTolerance, b: Tolerance) -> Tolerance | NoTolerance:
    if isinstance(a, NoTolerance):
        return a
    return Tolerance(max(a.median, b.median), max(a.worst, b.worst), b.source if b.worst > a.worst else a.source)


def _named(run: str) -> str:
    return "of the same name" if run == PLAIN else run


def _fed(place: Place) -> str:
    if place.plain_token is None or place.plain_token == place.token:
        return f"token {place.token}"
    return f"the drafter was fed token {place.token}, {place.plain_token} in the plain run"


def _drafting(place: Place) -> str:
    if place.round is None or place.step is None:
        return ""
    return f", round {place.round}, step {place.step}" if place.step else f", round {place.round}"


def _slot(name: str) -> int | None:
    return int(name.removeprefix("slot.")) if name.startswith("slot.") else None
