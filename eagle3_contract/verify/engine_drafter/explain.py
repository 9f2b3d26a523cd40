"""Why rows do not come out as our forward says: hypotheses tried on the data, until one gives the engine's own numbers.

First wirings, then states of the cache and positions. Where neither alone gives all rows, a wiring for the rows of the prompt, which see
no draft, and under it a state of the cache. A hypothesis is believed only if it reproduces every row within tolerance; what else does, or
comes near, is said.

Legend: U used rows of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.numerics.tolerance import Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_drafter.account import USED
from eagle3_contract.verify.engine_drafter.attempts import Attempt, attempts
from eagle3_contract.verify.engine_drafter.forwards import Distances, distances, run
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.variants import Variant

TRIED: Final = 4
"""Failing requests on which hypotheses are tried; the one that wins is then held against all."""
MARGIN: Final = 0.5
"""A hypothesis stands alone if it is at most this share of its runner-up's distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How one hypothesis did: the median distance on the rows that fail without it, the worst on all, and whether all are within."""

    name: str
    words: str
    median: float
    worst: float
    fits: bool
    because: str = ""
    variant: Variant | None = None
    attempt: Attempt | None = None


@dataclass(slots=True)
class Story:
    """What was found out.

    Attributes:
        wiring: what gives the wiring, if the contract's is not it; it may fit the rows of the prompt only.
        cache: what gives the state of the cache, or the positions, if the right ones do not.
        trials: everything that was tried, the nearest first.
    """

    wiring: Trial | None = None
    cache: Trial | None = None
    trials: list[Trial] = field(default_factory=list)

    def besides(self, found: Trial) -> list[Trial]:
        """What else was tried of the same kind, the nearest first."""
        return [t for t in self.trials if t is not found and (t.variant is None) == (found.variant is None)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A request, and its rows that are judged and that fail without a hypothesis. Bool [U] each."""

    subject: Subject
    judged: Tensor
    failing: Tensor


class Explainer:
    """Tries hypotheses on some failing requests."""

    def __init__(self, bounds: dict[str, Tolerance], base: Drafter, build: Callable[[Variant], Drafter]) -> None:
        self._bounds, self._base, self._build = bounds, base, build

    def explain(self, failing: Sequence[tuple[Subject, Distances]], variants: Iterable[Variant], everyone: Sequence[Subject]) -> Story:
        """The story of these requests."""
        chosen = sorted(failing, key=lambda sd: len(sd[1].rows))[:TRIED]
        rows = [_Rows(s, whole, d.beyond(self._bounds) & whole) for s, d in chosen for whole in [without_hole(s)]]
        prompt = [_Rows(r.subject, p, r.failing & p) for r in rows for p in [_of_prompt(r.subject)]]
        drafters: list[tuple[Variant, Drafter]] = []
        for variant in variants:
            try:
                drafters.append((variant, self._build(variant)))
            except UserError:  # this switch contradicts another one, or its weights are not there
                continue
        wirings = [self._wiring(v, d, rows) for v, d in drafters]
        if (wiring := _best(wirings)) is not None:
            return _story(wiring, None, wirings)
        caches = self._attempts(everyone, self._base, rows)
        if (cache := _best(caches)) is not None or not any(bool(p.failing.any()) for p in prompt):
            return _story(None, cache, [*wirings, *caches])
        wirings = [self._wiring(v, d, prompt) for v, d in drafters]
        if (wiring := _best(wirings)) is None:
            return _story(None, None, [*wirings, *caches])
        caches = self._attempts(everyone, next(d for v, d in drafters if v is wiring.variant), rows)
        return _story(wiring, _best(caches), [*wirings, *caches])

    def _attempts(self, everyone: Sequence[Subject], drafter: Drafter, rows: Sequence[_Rows]) -> list[Trial]:
        return [t for a in attempts(everyone) if (t := self._attempt(a, drafter, rows)) is not None]

    def _wiring(self, variant: Variant, drafter: Drafter, rows: Sequence[_Rows]) -> Trial:
        found = [(r, distances(r.subject, run(drafter, r.subject))) for r in rows]
        median, worst, fits = self._figures(found)
        return Trial(name=variant.name, words=variant.name, median=median, worst=worst, fits=fits, because=variant.because, variant=variant)

    def _attempt(self, attempt: Attempt, drafter: Drafter, rows: Sequence[_Rows]) -> Trial | None:
        made = [(r, out) for r in rows if (out := attempt.run(drafter, r.subject)) is not None]
        if not made:
            return None
        median, worst, fits = self._figures([(r, distances(r.subject, out)) for r, out in made])
        return Trial(
            name=attempt.name,
            words=attempt.words,
            median=median,
            worst=worst,
            fits=fits and len(made) == len(rows),
            because=attempt.known,
            attempt=attempt,
        )

    def _figures(self, found: Sequence[tuple[_Rows, Distances]]) -> tuple[float, float, bool]:
        failing = torch.cat([d.worst()[r.failing] for r, d in found])
        judged = torch.cat([d.worst()[r.judged] for r, d in found])
        fits = not any(bool((d.beyond(self._bounds) & r.judged).any()) for r, d in found)
        return _median(failing), float(judged.max()) if judged.numel() else float("inf"), fits and bool(judged.numel())


def _story(wiring: Trial | None, cache: Trial | None, trials: Sequence[Trial]) -> Story:
    return Story(wiring, cache, sorted(trials, key=lambda t: t.median))


def _median(errors: Tensor) -> float:
    return float(errors.sort().values[errors.numel() // 2]) if errors.numel() else float("inf")


def _best(trials: Sequence[Trial]) -> Trial | None:
    """Among those that fit the nearest; what an engine is known to do before a mere switch."""
    return min((t for t in trials if t.fits), key=lambda t: (not t.because, t.median), default=None)


def without_hole(subject: Subject) -> Tensor:
    """Bool [U]: rows whose committed rows all ran. What an engine reads where one did not run, nothing recorded can tell."""
    return torch.tensor([not subject.account.hole_before(row) for row in subject.account.rows if row.kind in USED], dtype=torch.bool)


def _of_prompt(subject: Subject) -> Tensor:
    """Bool [U]: committed rows of prefills."""
    phases = subject.account.phases
    return torch.tensor([phases[row.forward] == "prefill" for row in subject.account.rows if row.kind in USED])
