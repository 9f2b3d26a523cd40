"""What attribution says about one observed tensor: the best explanation, its runner-up, and whether that decides anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from contract.numerics.sinks import RowSummary, Sink


class Kind(StrEnum):
    """How the observed tensor is made from the candidate."""

    IDENTITY = "identity"
    ZEROS = "zeros"
    CONSTANT = "constant"
    FOREIGN = "foreign"
    PREFIX = "prefix"
    SHIFT = "shift"
    HALF = "half"
    SWAPPED_HALVES = "swapped_halves"
    SCALED = "scaled"
    RMS_NORM = "rms_norm"
    REVERSED = "reversed"
    PERMUTED = "permuted"
    ROTATED = "rotated"
    DERIVED = "derived"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One way to make the observed tensor, and how well it fits.

    Attributes:
        name: the candidate, or ``zeros`` or ``one repeated row`` where the tensor needs none.
        kind: what is done to the candidate.
        transform: the same in words, with its figures (``scaled by 2``).
        amount: rows for a shift (positive = late), the factor of a scaling, otherwise None.
        summary: per-row relative errors over the rows compared.
        rows_observed: rows of the observed tensor; more than ``summary.rows`` where only a part could be compared.
    """

    name: str
    kind: Kind
    transform: str
    amount: float | None
    summary: RowSummary
    rows_observed: int

    @property
    def median(self) -> float:
        return self.summary.median

    @property
    def worst(self) -> float:
        return self.summary.worst

    @property
    def worst_row(self) -> int | None:
        return self.summary.worst_row

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return self.summary.sinks

    def __str__(self) -> str:
        return self.name if self.kind is Kind.IDENTITY else f"{self.name} ({self.transform})"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The verdict on one observed tensor.

    Attributes:
        best: the best explanation, None if nothing could be compared.
        runner_up: the best one that names something else.
        matched: ``best`` is within tolerance and at most half as far as the runner-up.
        ambiguous: ``best`` is within tolerance, but the rivals are not twice as far.
        rivals: the explanations that ``best`` cannot be told from; empty unless ambiguous.
        considered: the names of all candidates that were compared, in order.
        left_out: candidates that could not be compared, with the reason.
        reason: the verdict in words.
    """

    best: Explanation | None
    runner_up: Explanation | None
    matched: bool
    ambiguous: bool
    rivals: tuple[Explanation, ...]
    considered: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    reason: str

    @property
    def margin(self) -> float | None:
        """How many times as far the runner-up is (inf if the best is exact); None without a runner-up."""
        if self.best is None or self.runner_up is None:
            return None
        if self.best.median == 0.0:
            return float("inf") if self.runner_up.median > 0.0 else 1.0
        return self.runner_up.median / self.best.median

    def is_identity_of(self, name: str) -> bool:
        """The observed tensor is that candidate, unchanged and beyond doubt."""
        return self.matched and self.best is not None and self.best.kind is Kind.IDENTITY and self.best.name == name

    def could_be(self, name: str) -> bool:
        """That candidate, unchanged, is the best explanation or one of the rivals that fit as well."""
        fitting = (self.best, *self.rivals) if self.best is not None and (self.matched or self.ambiguous) else ()
        return any(e.kind is Kind.IDENTITY and e.name == name for e in fitting)
