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
        median: [slots][states]; None where it was not measured.
        expected: per slot, the state that the contract wants; None if it names none.
    """

    slots: Sequence[str]
    states: Sequence[str]
    median: Sequence[Sequence[float | None]]
    expected: Sequence[str | None]

    @classmethod
    def of(cls, measurements: Mapping[str, Json]) -> Distances | None:
        """The matrix of a report, or None where it has none (or one of another shape, made by another kind).

        In JSON: ``{"slots": [0, 2], "states": ["boundary 0", ...], "median": [[...], [...]], "expected": [...]}``, where ``expected``
        is the whole recipe, so that a slot's number is its index, and every row of ``median`` belongs to an entry of ``slots``.
        """
        value: Any = measurements.get("distances")
        try:
            slots = [int(slot) for slot in value["slots"]]
            median = [[_number(cell) for cell in row] for row in value["median"]]
            states, recipe = [str(state) for state in value["states"]], list(value["expected"])
        except (TypeError, KeyError, ValueError):
            return None
        if len(median) != len(slots) or any(len(row) != len(states) for row in median) or not slots:
            return None
        expected = [str(recipe[slot]) if 0 <= slot < len(recipe) and recipe[slot] is not None else None for slot in slots]
        return cls(slots=[f"slot {slot}" for slot in slots], states=states, median=median, expected=expected)

    def value(self, slot: int, state: str | None) -> float | None:
        """The distance of a slot to a state, or None."""
        return self.median[slot][self.states.index(state)] if state in self.states else None

    def nearest(self, slot: int) -> str | None:
        """The state that a slot is nearest to; None if nothing was measured. Whether that is a match is for the checks to say."""
        measured = [(value, state) for value, state in zip(self.median[slot], self.states, strict=True) if value is not None]
        finite = [(value, state) for value, state in measured if math.isfinite(value)]
        return min(finite, key=lambda pair: pair[0])[1] if finite else None


def _number(cell: Any) -> float | None:
    """A cell as a number; non-finite ones come as strings from JSON."""
    return None if cell is None else float(cell)


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
    """A line per slot: the heat of every state, then what is expected and what is nearest. Cut to ``width`` columns."""
    label = max((len(s) for s in distances.slots), default=0)
    room = max(8, width // 2 - label)
    cut = len(distances.states) > room
    lines = [f"nearness to each of {len(distances.states)} states ({RAMP[0]} equal, blank another state):"]
    for index, slot in enumerate(distances.slots):
        strip = "".join(heat(v) for v in distances.median[index][:room]) + ("..." if cut else "")
        expected, nearest = distances.expected[index], distances.nearest(index)
        said = [f"expected {expected} ({short(distances.value(index, expected))})"] if expected is not None else []
        said += [f"nearest {nearest} ({short(distances.value(index, nearest))})"] if nearest is not None else []
        lines.append(f"{slot.ljust(label)} |{strip}| {', '.join(said)}")
    return lines
