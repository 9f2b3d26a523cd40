"""Made-up states of a decoder: a residual stream with an attention sink in row 0, as trained targets have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

States = Callable[..., list[Tensor]]


def make_states(seed: int = 0, rows: int = 90, columns: int = 64, layers: int = 6, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """Boundaries 0 ... layers, each [rows, columns]; neighbours are about 0.3 to 0.7 apart, row 0 is alike in every document."""
    make = torch.Generator().manual_seed(seed)
    sink = torch.randn(columns, generator=torch.Generator().manual_seed(99))
    stream = torch.randn(rows, columns, generator=make)
    states = []
    for layer in range(layers + 1):
        shown = stream.clone()
        if layer > 1:
            shown[0] = sink * 200
        states.append(shown.to(dtype))
        stream = stream + 0.6 * torch.randn(rows, columns, generator=make)
    return states


@pytest.fixture
def states() -> States:
    return make_states
