"""Accuracy per drafting step and accepted length on both paths, as the measurements of a report hold them.

``measurements["training_path"]``, ``["inference_path"]`` and ``["server"]`` (a running one) are ``{"accuracy": [per step],
"position_acceptance": [per step], "accepted_length": number, ...}``, and ``["claimed"]`` the same of what the contract records. Each is
optional, and so is each key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.findings import Json

_PATHS: Final = {"claimed": "claimed", "training": "training_path", "inference": "inference_path", "server": "server"}
_FIGURES: Final = {
    "accuracy": "top-1 accuracy per step",
    "position_acceptance": "share of rounds that accept the draft of a step",
    "accepted_length": "accepted length",
}
_WHOLE: Final = "accepted_length"
"""The figure that has one value and none per step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """One figure, step by step. A path that was not run is left out, a step without a value None.

    Attributes:
        name: what is counted.
        per_step: whether a path has a value per step, or one in all.
        paths: values by path, claimed first: it is what the others are held against.
    """

    name: str
    per_step: bool
    paths: Mapping[str, Sequence[float | None]]

    @classmethod
    def all_of(cls, measurements: Mapping[str, Json]) -> list[Steps]:
        """The figures of a report; none where it has none (or some of another shape, made by another kind)."""
        found = []
        for key, name in _FIGURES.items():
            paths = {path: _values(measurements.get(source), key) for path, source in _PATHS.items()}
            if any(value is not None for values in paths.values() for value in values):
                found.append(cls(name=name, per_step=key != _WHOLE, paths={path: values for path, values in paths.items() if values}))
        return found

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name[0].upper() + self.name[1:]

    def heads(self) -> list[str]:
        """A head per column."""
        return [f"step {step}" for step in range(self.length())] if self.per_step else ["tokens per round"]

    def length(self) -> int:
        return max(len(values) for values in self.paths.values())

    def greatest(self) -> float:
        """The full length of a bar: 1 for shares, else the largest value."""
        return max([1.0, *(value for values in self.paths.values() for value in values if value is not None)])


def share_text(value: float | None) -> str:
    """``0.747``; ``-`` where there is no value."""
    return "-" if value is None else f"{value:.3f}"


def lines(figures: Sequence[Steps]) -> list[str]:
    """A small table of every figure, a line per path."""
    out = []
    for figure in figures:
        out.append(f"{figure.name}:")
        out += [f"  {path:9} " + "  ".join(share_text(v).rjust(5) for v in values) for path, values in figure.paths.items()]
    return out


def _values(path: Any, key: str) -> list[float | None]:
    if not isinstance(path, Mapping) or key not in path:
        return []
    values = path[key] if isinstance(path[key], list | tuple) else [path[key]]
    return [float(v) if isinstance(v, int | float) and math.isfinite(v) else None for v in values]
