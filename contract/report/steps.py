"""Figures per drafting step on both paths, as ``measurements["steps"]`` holds them: accuracy, acceptance, ..."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.findings import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """One figure, step by step. Shares between 0 and 1; a path that was not run is empty, a step without a value None.

    Attributes:
        name: what is counted (``top-1 accuracy (speculators.full_acc)``).
        training: on the training path.
        inference: on the inference path.
        claimed: what the contract records.
    """

    name: str
    training: Sequence[float | None] = ()
    inference: Sequence[float | None] = ()
    claimed: Sequence[float | None] = ()

    def as_json(self) -> dict[str, Json]:
        return {"name": self.name, **{path: list(values) for path, values in self.paths()}}

    @classmethod
    def all_of(cls, measurements: Mapping[str, Json]) -> list[Steps]:
        """The figures of a report; none where it has none (or some of another shape, made by another kind)."""
        found: Any = measurements.get("steps")
        entries = found if isinstance(found, list | tuple) else []
        shaped = [e for e in entries if isinstance(e, Mapping) and isinstance(e.get("name"), str)]
        return [cls(name=e["name"], **{path: _values(e.get(path)) for path in ("training", "inference", "claimed")}) for e in shaped]

    def paths(self) -> list[tuple[str, Sequence[float | None]]]:
        """The three series by name, claimed first: it is what the others are held against."""
        return [("claimed", self.claimed), ("training", self.training), ("inference", self.inference)]

    def length(self) -> int:
        return max(len(values) for _, values in self.paths())


def share_text(value: float | None) -> str:
    """``0.747``; ``-`` where there is no value."""
    return "-" if value is None else f"{value:.3f}"


def lines(figures: Sequence[Steps]) -> list[str]:
    """A small table of every figure, a line per path."""
    out = []
    for figure in figures:
        out.append(f"{figure.name}, per step:")
        out += [f"  {path:9} " + "  ".join(share_text(v).rjust(5) for v in values) for path, values in figure.paths() if values]
    return out


def _values(values: Any) -> list[float | None]:
    if not isinstance(values, list | tuple):
        return []
    return [float(v) if isinstance(v, int | float) and math.isfinite(v) else None for v in values]
