"""Sinks are listed apart, and are judged by themselves."""

from __future__ import annotations

import math

import pytest
import torch

from contract.numerics.sinks import sink_mask, summarise
from contract.numerics.statistics import compare
from contract.numerics.tolerance import Tolerance
from tests.numerics.conftest import make_states


def test_row_zero_of_a_trained_stream_is_a_sink() -> None:
    state = make_states()[4]
    norms = state.float().norm(dim=1)
    assert sink_mask(norms).nonzero().flatten().tolist() == [0]
    assert not bool(sink_mask(norms[1:]).any())


def test_a_sink_is_neither_in_the_median_nor_the_worst_row_but_its_error_is_kept() -> None:
    b = make_states(dtype=torch.float32)[4]
    a = b.clone()
    a[0] *= 1.5
    a[7] *= 1.25
    found = summarise(compare(a, b).rows)
    assert (found.median, found.worst, found.worst_row) == (0.0, pytest.approx(0.25, rel=1e-6), 7)
    assert [(s.row, s.error) for s in found.sinks] == [(0, pytest.approx(0.5, rel=1e-6))]
    assert found.sinks[0].factor > 100
    assert not Tolerance(0.05, 0.3, "given").allows(found.median, found.worst, found.worst_sink)
    assert Tolerance(0.05, 0.5 + 1e-6, "given").allows(found.median, found.worst, found.worst_sink)


def test_a_row_blown_up_on_one_side_does_not_hide_as_a_sink() -> None:
    b = make_states()[1]
    a = b.clone()
    a[30] *= 100
    found = summarise(compare(a, b).rows)
    assert found.worst == 0.0
    assert found.worst_sink > 90


def test_a_row_that_is_not_finite_is_never_a_sink() -> None:
    b = make_states()[1]
    a = b.clone()
    a[30, 3] = math.inf
    found = summarise(compare(a, b).rows)
    assert (found.worst, found.worst_row, found.sinks) == (math.inf, 30, ())


def test_mostly_empty_and_wholly_bad_tensors_have_no_sinks() -> None:
    assert not bool(sink_mask(torch.tensor([0.0, 0.0, 0.0, 5.0])).any())
    assert not bool(sink_mask(torch.tensor([math.nan, math.inf])).any())


def test_the_median_of_two_rows_is_the_worse_one() -> None:
    b = torch.ones(2, 4)
    assert summarise(compare(b * torch.tensor([[1.0], [2.0]]), b).rows).median == 1.0


def test_no_rows_are_infinitely_far() -> None:
    assert summarise(compare(torch.empty(0, 4), torch.empty(0, 4)).rows).median == math.inf


def test_rows_are_numbered_from_the_first_one_compared() -> None:
    b = make_states()[1]
    a = b.clone()
    a[5] = 0
    assert summarise(compare(a, b).rows, first_row=2).worst_row == 7
