"""The distance of every captured slot to every state it might carry, as ``measurements["distances"]`` holds it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.findings import Json

RAMP: Final = "#%*+=-:. "
"""From near to far: a captured state stands out as ``#``."""
_NEAR, _FAR = -6.0, 0.0
"""Powers of ten of the relative errors between which the ramp runs: float32 noise, and another state altogether."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Median per-row relative errors.

    Attributes:
        slots: names of the rows (``slot 0``).
        states: names of the columns (``boundary 3``, ``final_norm``).
        values: [slots][states]; None where it was not measured.
        wanted: per slot, the state that the contract wants; None if it names none.
        found: per slot, the state that it carries; None if ambiguous or none.
    """

    slots: Sequence[str]
    states: Sequence[str]
    values: Sequence[Sequence[float | None]]
    wanted: Sequence[str | None]
    found: Sequence[str | None]

    def as_json(self) -> dict[str, Json]:
        return {
            "slots": list(self.slots),
            "states": list(self.states),
            "values": [list(row) for row in self.values],
            "wanted": list(self.wanted),
            "found": list(self.found),
        }

    @classmethod
    def of(cls, measurements: Mapping[str, Json]) -> Distances | None:
        """The matrix of a report, or None where it has none (or one of another shape, made by another kind)."""
        value: Any = measurements.get("distances")
        if not isinstance(value, Mapping) or not {"slots", "states", "values", "wanted", "found"} <= value.keys():
            return None
        made = cls(**{key: list(value[key]) for key in ("slots", "states", "values", "wanted", "found")})
        rows = len(made.slots)
        fits = len(made.values) == len(made.wanted) == len(made.found) == rows
        return made if fits and all(len(row) == len(made.states) for row in made.values) else None

    def value(self, slot: int, state: str | None) -> float | None:
        """The distance of a slot to a state, or None."""
        if state is None or state not in self.states:
            return None
        found = self.values[slot][self.states.index(state)]
        return float(found) if isinstance(found, int | float) else None


def nearness(value: object) -> float | None:
    """0 (another state altogether, or NaN) to 1 (equal within float32 noise) on a logarithmic scale; None if not measured."""
    if not isinstance(value, int | float):
        return None if value is None else 0.0
    if not math.isfinite(value):
        return 0.0
    power = math.log10(value) if value > 0 else _NEAR
    return min(1.0, max(0.0, (_FAR - power) / (_FAR - _NEAR)))


def heat(value: object) -> str:
    """One character of ``RAMP``; ``?`` where nothing was measured."""
    near = nearness(value)
    return "?" if near is None else RAMP[round((1 - near) * (len(RAMP) - 1))]


def short(value: float | None) -> str:
    """``2.1e-06``, ``0.21``, ``-`` where not measured."""
    return "-" if value is None else f"{value:.2g}"


def drawing(distances: Distances, *, width: int) -> list[str]:
    """A line per slot: the heat of every state, then what is wanted and what is found. Cut to ``width`` columns."""
    label = max((len(s) for s in distances.slots), default=0)
    room = max(8, width // 2 - label)
    cut = len(distances.states) > room
    lines = [f"nearness to each of {len(distances.states)} states ({RAMP[0]} equal, blank another state):"]
    for index, slot in enumerate(distances.slots):
        strip = "".join(heat(v) for v in distances.values[index][:room]) + ("..." if cut else "")
        wanted, found = distances.wanted[index], distances.found[index]
        said = [f"wanted {wanted} ({short(distances.value(index, wanted))})"] if wanted is not None else []
        said.append(f"carries {found} ({short(distances.value(index, found))})" if found is not None else "carries no single state")
        lines.append(f"{slot.ljust(label)} |{strip}| {', '.join(said)}")
    return lines
