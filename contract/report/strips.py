"""Token by token, whether the first draft was right, as ``measurements["tokens"]`` holds it: ``{sample: {path: "+-."}}``.

``+`` is a token that the drafter said, ``-`` one that it missed, ``.`` one that was not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.findings import Json

HIT: Final = "+"
MISS: Final = "-"
NONE: Final = "."
_SHAPE: Final = re.compile(r"[+.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One sample on one path."""

    sample: str
    path: str
    marks: str

    @property
    def share(self) -> str:
        """``112 of 150 right``."""
        hits = self.marks.count(HIT)
        return f"{hits} of {hits + self.marks.count(MISS)} right"

    def runs(self) -> Iterator[tuple[str, int, int]]:
        """Mark, first token and number of tokens of every run of equal marks."""
        return ((run[0][0], run.start(), len(run[0])) for run in re.finditer(r"(.)\1*", self.marks))


def strips(measurements: Mapping[str, Json]) -> list[Strip]:
    """The strips of a report, in its order; none where it has none (or something of another shape)."""
    found: Any = measurements.get("tokens")
    if not isinstance(found, Mapping):
        return []
    pairs = [(str(sample), paths) for sample, paths in found.items() if isinstance(paths, Mapping)]
    return [
        Strip(sample=sample, path=str(path), marks=marks)
        for sample, paths in pairs
        for path, marks in paths.items()
        if isinstance(marks, str) and _SHAPE.fullmatch(marks)
    ]
