"""Where a parameter's values come from is told by the values alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tools.engines.by_value import source
from tools.engines.raw import UNWRITTEN, marked_memory

A, B, TARGET = (torch.randn(6, 4, generator=torch.Generator().manual_seed(s)) for s in (1, 2, 3))
OWN = {"a": A, "b": B, "a [z.safetensors]": A + 1}


def padded(rows: int, columns: int) -> torch.Tensor:
    out = torch.zeros(rows, columns)
    out[:6, :4] = A
    return out


LINEAR = (torch.rand(6, 400, generator=torch.Generator().manual_seed(5)) * 2 - 1) * 400**-0.5


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (A.clone(), {"source": "checkpoint", "tensor": "a"}),
        (A + 1, {"source": "checkpoint", "tensor": "a [z.safetensors]"}),
        (A.double(), {"source": "checkpoint", "tensor": "a"}),
        (TARGET, {"source": "target", "tensor": "t"}),
        (A[:3], {"source": "checkpoint", "tensor": "a", "first_rows_of": [6, 4]}),
        (A[:3, :2], {"source": "checkpoint", "tensor": "a", "top_left_block_of": [6, 4]}),
        (padded(8, 4), {"source": "checkpoint", "tensor": "a", "rows": 6, "rest": "zeros"}),
        (padded(8, 5), {"source": "checkpoint", "tensor": "a", "fills_top_left_block": [6, 4], "rest": "zeros"}),
        (torch.ones(3), {"source": "ones"}),
        (torch.zeros(3), {"source": "zeros"}),
        (torch.full((2, 2), UNWRITTEN), {"source": "uninitialised"}),
        (LINEAR, {"source": "random_init_uniform"}),
        (LINEAR[0], {"source": "random_init_uniform"}),
        (torch.randn(6, 4, generator=torch.Generator().manual_seed(9)), {"source": "other"}),
    ],
)
def test_source(value: torch.Tensor, wanted: dict[str, Any]) -> None:
    found = source(value, OWN, {"t": TARGET}, fan_in=400)
    assert {k: v for k, v in found.items() if k != "shape"} == wanted
    assert found["shape"] == list(value.shape)


def test_one_changed_number_is_no_match() -> None:
    changed = A.clone()
    changed[5, 3] += 1e-6 + abs(changed[5, 3].item())
    assert source(changed, OWN, {})["source"] == "other"


def test_memory_is_marked_only_while_a_drafter_is_built() -> None:
    with marked_memory():
        assert bool((torch.empty(3, 3) == UNWRITTEN).all())
        assert torch.empty(2, dtype=torch.int64).dtype == torch.int64
    assert torch.empty is torch.__dict__["empty"]
    assert torch.empty.__name__ == "empty"
