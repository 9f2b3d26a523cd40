"""Reading a candidate back with an engine, and choosing the candidate that every engine reads rightly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contract.findings import Check, Status
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.reading import check_reading
from eagle3_contract.export.candidates import Candidate
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import BOUNDARIES, EngineReading, Outcome
from eagle3_contract.readings.rules import Origin
from eagle3_contract.readings.view import DrafterView


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate as several engines read it.

    Attributes:
        wrong: by engine reference, what it does other than training; engines that do nothing else are not in it.
        open: the same for what nobody knows it to do.
        refused: readings that end in an error at load, those that do not even get to the tensors twice: they say nothing about the
            arithmetic.
        by_default: readings that get the right states by a default, which the next release may change.
    """

    candidate: Candidate
    wrong: Mapping[str, tuple[Check, ...]]
    open: Mapping[str, tuple[Check, ...]]
    refused: int
    by_default: int

    @property
    def distance(self) -> tuple[int, int, int, int]:
        """How far it is from training: refusals first, then differences, what is not known, and what is left to a default."""
        return self.refused, sum(map(len, self.wrong.values())), sum(map(len, self.open.values())), self.by_default


def try_one(ctx: CheckContext, view: DrafterView, candidate: Candidate, engines: Iterable[str], target: Mapping[str, Any] | None) -> Trial:
    """Read a candidate with every engine. Raises UsageError for an engine that is not in the table."""
    seen = as_read(view, candidate)
    readings = {e: read(seen, e, target) for e in engines}
    found = {e: [c for r in several for c in check_reading(ctx, r)] for e, several in readings.items()}
    wrong = {e: tuple(c for c in checks if c.status is Status.FAILED) for e, checks in found.items()}
    open_ = {e: tuple(c for c in checks if c.status is Status.UNKNOWN and c.required) for e, checks in found.items()}
    return Trial(
        candidate=candidate,
        wrong={e: c for e, c in wrong.items() if c},
        open={e: c for e, c in open_.items() if c},
        refused=sum(_refused(r) for several in readings.values() for r in several),
        by_default=sum(_boundaries_by_default(r) for several in readings.values() for r in several),
    )


def _refused(reading: EngineReading) -> int:
    return 0 if reading.outcome is not Outcome.ERROR_AT_LOAD else 1 if reading.tensors else 2


def _boundaries_by_default(reading: EngineReading) -> bool:
    return any(f.field == BOUNDARIES and f.origin is Origin.DEFAULT for f in reading.fields)


def as_read(view: DrafterView, candidate: Candidate) -> DrafterView:
    """The drafter as it would be read with a candidate's config and names."""
    files = {file: {candidate.names.get(n, n): h for n, h in tensors.items()} for file, tensors in view.files.items()}
    index = None if view.index is None else {candidate.names.get(n, n): f for n, f in view.index.items()}
    return replace(view, config=candidate.config, files=files, index=index)


def choose(
    ctx: CheckContext, view: DrafterView, ways: Sequence[Candidate], engines: Sequence[str], target: Mapping[str, Any] | None
) -> Trial:
    """The first candidate that every engine reads rightly, else the one with the fewest differences."""
    best: Trial | None = None
    for candidate in ways:
        trial = try_one(ctx, view, candidate, engines, target)
        if best is None or trial.distance < best.distance:
            best = trial
        if trial.distance == (0, 0, 0, 0):
            break
    assert best is not None  # candidates() yields one at least, for every recipe
    return best
