"""Rows in another order: a permutation, a large shift, a batch whose requests were mixed up.

All pairs of rows are compared through a matrix product, in blocks. Differences of large numbers cancel there, so that the product only
says which row is the nearest; how near it is, the exact comparison of the rearranged tensors says.

Legend: T rows of both tensors, R sampled rows, B rows of a block, H columns.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from contract.numerics.explanations import Kind
from contract.numerics.transforms import Pair, Transform

SAMPLED_ROWS: Final = 16
BLOCK: Final = 512


def nearest_rows(o_RH: Tensor, c_TH: Tensor) -> Tensor:
    """For each observed row the number of the nearest candidate row (int64 [R]), relative to the candidate row's norm."""
    o_RH = o_RH.float()
    o2_R1 = torch.linalg.vector_norm(o_RH, dim=1, keepdim=True).square()
    best_R = torch.full((len(o_RH),), torch.inf, device=o_RH.device)
    at_R = torch.zeros(len(o_RH), dtype=torch.int64, device=o_RH.device)
    for start in range(0, len(c_TH), BLOCK):
        c_BH = c_TH[start : start + BLOCK].float()
        c2_B = torch.linalg.vector_norm(c_BH, dim=1).square().clamp_min(1e-30)
        d2_RB = (o2_R1 - 2.0 * (o_RH @ c_BH.T) + c2_B) / c2_B
        low_R, where_R = d2_RB.min(dim=1)
        better_R = low_R < best_R
        best_R = torch.where(better_R, low_R, best_R)
        at_R = torch.where(better_R, where_R + start, at_R)
    return at_R


def _rearranged(o_TH: Tensor, c_TH: Tensor, rows: Tensor | None) -> Pair | None:
    if o_TH.shape != c_TH.shape or len(o_TH) < 2:
        return None
    if rows is not None:
        # Sampled rows only screen: whether each of them is *some* row of the candidate.
        few = rows[:: max(1, rows.numel() // SAMPLED_ROWS)]
        return Pair(o_TH[few], c_TH[nearest_rows(o_TH[few], c_TH)], "rows in another order")
    at_T = torch.cat([nearest_rows(o_TH[i : i + BLOCK], c_TH) for i in range(0, len(o_TH), BLOCK)])
    return Pair(o_TH, c_TH[at_T], _in_words(at_T))


def _in_words(at_T: Tensor) -> str:
    here_T = torch.arange(len(at_T), device=at_T.device)
    moved = (at_T != here_T).nonzero().flatten()
    if moved.numel() == 0:
        return "rows in their order"
    shifts, counts = torch.unique(here_T - at_T, return_counts=True)
    if 2 * int(counts.max()) > len(at_T):
        k = int(shifts[counts.argmax()])
        return f"{abs(k)} rows {'late' if k > 0 else 'early'} ({int(counts.max())} of {len(at_T)} rows)"
    first = int(moved[0])
    example = f"row {first} holds row {int(at_T[first])}"
    if len(torch.unique(at_T)) < len(at_T):
        return f"rows repeated and lost ({example})"
    return f"rows in another order ({moved.numel()} of {len(at_T)} moved; {example})"


REARRANGED: Final = Transform(Kind.PERMUTED, 3, _rearranged)
