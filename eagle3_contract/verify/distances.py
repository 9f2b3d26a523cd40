"""The slot x state matrix of distances, for the reports: per-row medians, averaged over requests.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from contract.findings import Json
from contract.numerics.sinks import RowSummary, summarise
from contract.numerics.statistics import compare
from eagle3_contract.model.states import Recipe, State, state_name
from eagle3_contract.verify.capture_set import Captured


class Distances:
    """Adds up the median per-row relative error of every slot against every state at hand."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._sums: dict[tuple[int, State], list[float]] = {}

    def add(self, slots: Sequence[Tensor], stored: Mapping[State, Tensor], captured: Captured) -> None:
        """Compare the slots [T, G] of one request with the sample's states and the recorded ones."""
        for state in [*stored, *(s for s in captured.states if s not in stored)]:
            reference = stored[state] if state in stored else captured.load(captured.states[state])
            for i, slot in enumerate(slots):
                if slot.shape == reference.shape:
                    self._sums.setdefault((i, state), []).append(self._summary(slot, reference).median)

    def own(self, fed: Tensor, trained: Tensor | None) -> RowSummary | None:
        """How far a slot is from the state that training fed there; None if they cannot be compared."""
        if trained is None or fed.shape != trained.shape:
            return None
        return self._summary(fed, trained)

    @staticmethod
    def _summary(fed: Tensor, reference: Tensor) -> RowSummary:
        return summarise(compare(fed, reference.to(fed.device), histogram=False).rows)

    def as_measurement(self) -> dict[str, Json]:
        """As ``contract.report.distances`` draws it; null where nothing could be compared."""
        states: list[State] = sorted({s for _, s in self._sums}, key=lambda s: (isinstance(s, str), s))
        slots = sorted({i for i, _ in self._sums})
        return {
            "what": "median per-row relative error, mean over requests",
            "slots": slots,
            "states": [state_name(s) for s in states],
            "expected": [state_name(s) for s in self._recipe],
            "median": [[_mean(self._sums.get((i, s))) for s in states] for i in slots],
        }


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None
