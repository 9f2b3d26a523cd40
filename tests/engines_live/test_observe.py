"""Captured states are named only where one boundary is clearly nearest; errors are taken from a log's first and last exception."""

from __future__ import annotations

import torch

from tools.engines.observe import _errors, match

KNOWN: dict[int | str, torch.Tensor] = {n: torch.randn(7, 8, generator=torch.Generator().manual_seed(n)) for n in range(4)}


def test_the_boundary_is_named() -> None:
    assert match(KNOWN[2] * (1 + 1e-5), KNOWN) == 2


def test_a_state_that_is_none_of_them_is_not_named() -> None:
    assert match(torch.randn(7, 8, generator=torch.Generator().manual_seed(77)), KNOWN) is None


def test_two_equal_candidates_are_ambiguous() -> None:
    assert match(KNOWN[2], KNOWN | {"final_norm": KNOWN[2] + 1e-6}) is None


def test_errors_are_the_first_and_the_last_of_a_log() -> None:
    log = "INFO ready\nTraceback\n  File x\n    raise ValueError(\nAttributeError: no vocab\n(Worker) RuntimeError: engine died\n"
    first, last = _errors(log)
    assert first == "AttributeError: no vocab"
    assert last is not None
    assert "RuntimeError: engine died" in last
    assert _errors("all well\n") == (None, None)
