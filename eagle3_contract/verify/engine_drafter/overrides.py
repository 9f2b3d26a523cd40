"""Checkpoints seen otherwise than they are: kept in memory, with a tensor replaced, added or scaled.

Legend: L rows asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from eagle3_contract.drafter.weights import WeightSource


class Kept:
    """A checkpoint whose tensors are read once and kept in float32, so that the many variants built of them share them.

    Where rows are asked for, rows are read.
    """

    def __init__(self, source: WeightSource) -> None:
        self._source, self._held = source, dict[str, Tensor]()
        self.label = source.label

    def names(self) -> Collection[str]:
        return self._source.names()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._source.shape(name)

    def tensor(self, name: str) -> Tensor:
        if name not in self._held:
            found = self._source.tensor(name)
            self._held[name] = found.to(torch.float32) if found.is_floating_point() else found
        return self._held[name]

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        return self._source.rows(name, ids_L)


class Overridden:
    """A checkpoint with some tensors replaced, or added under names that it lacks."""

    def __init__(self, source: WeightSource, values: Mapping[str, Tensor]) -> None:
        self._source, self._values = source, dict(values)
        self.label = source.label

    def names(self) -> Collection[str]:
        return {*self._source.names(), *self._values}

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._values[name].shape) if name in self._values else self._source.shape(name)

    def tensor(self, name: str) -> Tensor:
        return self._values[name] if name in self._values else self._source.tensor(name)

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        return self._values[name][ids_L] if name in self._values else self._source.rows(name, ids_L)


class Scaled:
    """A checkpoint whose tensors named here are multiplied by a factor; 0 is memory that nothing was loaded into."""

    def __init__(self, source: WeightSource, names: Collection[str], factor: float) -> None:
        self._source, self._scaled, self._factor = source, frozenset(names), factor
        self.label = source.label

    def names(self) -> Collection[str]:
        return self._source.names()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._source.shape(name)

    def tensor(self, name: str) -> Tensor:
        found = self._source.tensor(name)
        return found * self._factor if name in self._scaled else found

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        found = self._source.rows(name, ids_L)
        return found * self._factor if name in self._scaled else found
