"""Reads the conformance vectors. Needs torch and safetensors, nothing else; copy it into an engine's own tests."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor


@dataclass
class Case:
    """One wiring: ``drafter`` is the checkpoint to load; ``wiring`` says what it must do, ``differs`` where that is not the plain one."""

    name: str
    drafter: Path
    wiring: dict[str, Any]
    differs: dict[str, Any]
    weights: dict[str, Tensor]
    target: dict[str, Tensor]
    vectors: dict[str, Tensor]
    tolerance: float

    def misses(self, name: str, logits: Tensor) -> list[int]:
        """Rows of ``logits_step0`` ... or of ``rounds.logits`` that are wrong; a row without a token (NaN here) is nobody's."""
        right, got = self.vectors[name].double().flatten(0, -2), logits.double().flatten(0, -2)
        assert right.shape == got.shape, f"{self.name}: {name} is {list(logits.shape)}"
        bound = self.tolerance * right.abs().amax(dim=1).clamp(min=1.0)
        wrong = ~((got - right).abs().amax(dim=1) <= bound) & ~right.isnan().any(dim=1)
        return [int(row) for row in wrong.nonzero()]


def cases(folder: Path) -> Iterator[Case]:
    index = json.loads((folder / "index.json").read_text())
    assert (index["format"], index["format_version"]) == ("eagle3-conformance", 1)
    target = load_file(folder / index["target"])
    for name in index["cases"]:
        place = folder / name
        case = json.loads((place / "case.json").read_text())
        weights, vectors = load_file(place / "drafter" / "model.safetensors"), load_file(place / "vectors.safetensors")
        yield Case(name, place / "drafter", case["wiring"], case["differs"], weights, target, vectors, index["tolerance"])
