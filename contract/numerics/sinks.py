"""Attention sinks: the few rows whose norm is far above all others, listed apart and judged by themselves.

In a trained decoder position 0 collects a massive activation: in SmolLM2-135M its row has 166 times the median norm at boundary 15 and
44 times at boundary 27, whatever the prompt says. A figure that pools rows, or a worst row that is always row 0, then says nothing
about the other rows; so the median and the worst row are taken over the rest. A sink is not forgiven anything: its own error counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.numerics.statistics import Rows

SINK_FACTOR: Final = 20.0
"""A sink's norm is above this many median norms. Ordinary rows stay within 2 to 6 of it (SmolLM2-135M, five prompts)."""


@dataclass(frozen=True, slots=True)
class Sink:
    """One sink row: its relative error, and how many median norms it has on either side."""

    row: int
    error: float
    factor: float


@dataclass(frozen=True, slots=True)
class RowSummary:
    """Per-row relative errors in short.

    Attributes:
        rows: rows compared, sinks too.
        median: over the rows that are no sinks (the upper one of two middle rows); inf if there is no row.
        worst: the largest among them, in row ``worst_row``; of several the first.
        sinks: the sink rows, in order.
    """

    rows: int
    median: float
    worst: float
    worst_row: int | None
    sinks: tuple[Sink, ...]

    @property
    def worst_sink(self) -> float:
        """The largest error of a sink; 0 if there is none."""
        return max((s.error for s in self.sinks), default=0.0)


def sink_mask(norm_T: Tensor, *, factor: float = SINK_FACTOR) -> Tensor:
    """Bool [T]: which rows are sinks, from the norms of all rows. A row that is not finite is a fault and never a sink."""
    finite_T = torch.isfinite(norm_T)
    if not bool(finite_T.any()):
        return torch.zeros_like(finite_T)
    median = float(norm_T[finite_T].median())
    if median == 0.0:  # a mostly empty tensor has no scale that a row could exceed
        return torch.zeros_like(finite_T)
    return finite_T & (norm_T > factor * median)


def summarise(rows: Rows, *, first_row: int = 0, factor: float = SINK_FACTOR) -> RowSummary:
    """Median and worst row without the sinks, and the sinks; see ``summarise_errors``."""
    return summarise_errors(rows.error, rows.norm_a, rows.norm_b, first_row=first_row, factor=factor)


def summarise_errors(error_T: Tensor, norm_a_T: Tensor, norm_b_T: Tensor, *, first_row: int = 0, factor: float = SINK_FACTOR) -> RowSummary:
    """Median and worst row without the sinks, and the sinks.

    A row counts as a sink if it is one on either side, so that a row blown up on one side is listed, with its error.

    Args:
        error_T: per-row relative errors.
        norm_a_T: L2 norms of one side's rows.
        norm_b_T: L2 norms of the other's.
        first_row: number of the first row, where the compared rows are a later part of a tensor.
        factor: see ``SINK_FACTOR``.
    """
    sinks_T = sink_mask(norm_a_T, factor=factor) | sink_mask(norm_b_T, factor=factor)
    sinks = tuple(
        Sink(row=i + first_row, error=float(error_T[i]), factor=max(_factor(norm_a_T, i), _factor(norm_b_T, i)))
        for i in sinks_T.nonzero().flatten().tolist()
    )
    ordinary = (~sinks_T).nonzero().flatten()
    if ordinary.numel() == 0:
        return RowSummary(rows=len(sinks_T), median=math.inf, worst=math.inf, worst_row=None, sinks=sinks)
    kept = error_T[ordinary]
    at = int(kept.argmax())
    return RowSummary(
        rows=len(sinks_T),
        median=float(kept.kthvalue(kept.numel() // 2 + 1).values),
        worst=float(kept[at]),
        worst_row=int(ordinary[at]) + first_row,
        sinks=sinks,
    )


def _factor(norm_T: Tensor, row: int) -> float:
    finite = norm_T[torch.isfinite(norm_T)]
    median = float(finite.median()) if finite.numel() else 0.0
    return float(norm_T[row]) / median if median > 0.0 else 0.0
