"""The best entry of each row, whatever the row holds."""

from __future__ import annotations

import math

import pytest
import torch

from eagle3_contract.verify.best import Best, spread_best

ROWS = [[1.0, 3.0, 2.0], [math.nan, 9.0, 1.0], [1.0, math.inf, 0.0], [-math.inf] * 3, [-math.inf, -1.0, -math.inf], [5.0, 5.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_best_entry_and_whether_it_is_a_number(dtype: torch.dtype) -> None:
    found = Best.of(torch.tensor(ROWS, dtype=dtype))
    assert found.finite.tolist() == [True, False, False, False, True, True]
    assert found.ids[found.finite].tolist() == [1, 1, 0]
    assert found.ids.dtype is torch.int64


def test_rows_of_random_logits_are_torchs() -> None:
    torch.manual_seed(0)
    logits = torch.randn(50, 333)
    assert torch.equal(Best.of(logits).ids, logits.argmax(-1))
    assert torch.equal(Best.of(logits[:, ::2]).ids, logits[:, ::2].argmax(-1))


def test_nothing_is_the_best_of_no_rows() -> None:
    assert len(Best.of(torch.empty(0, 4))) == 0


def test_rows_that_a_step_lacks_are_no_number() -> None:
    spread = spread_best(Best.of(torch.tensor([[0.0, 1.0], [1.0, 0.0]])), torch.tensor([2, 0]), 4)
    assert spread.finite.tolist() == [True, False, True, False]
    assert spread.ids.tolist() == [0, 0, 1, 0]
