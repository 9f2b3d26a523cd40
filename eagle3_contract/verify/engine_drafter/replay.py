"""Our forward over every row that the engine ran for one request, in one pass.

Each row is given what the engine recorded of it (the state it was handed, its token, its position), so that a fault shows in the row
where it is made and in no later one. What one row sees of the others is a mask: the state of the key/value cache at that moment, row by
row. Since no row's input depends on another row's output, all rows of a request, and all layers, are computed at once.

Legend: N rows, Q queries of a block, NH query heads, NKV key heads, G query heads per key head, D width of query and key, E width of
value, H hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from eagle3_contract.drafter.attention import SCORE_BUDGET, KeyValue
from eagle3_contract.drafter.drafter import Drafter

MAX_ROTATED: Final = 2**24
"""Rotary positions below this are exact in float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What the rows are fed: token ids [N] int64, positions [N] int64, and the state each is handed [N, H]."""

    ids_N: Tensor
    positions_N: Tensor
    hidden_NH: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What goes into the head, and what is handed to the next step, both [N, H] float32 on the CPU."""

    final_NH: Tensor
    state_NH: Tensor


@torch.no_grad()
def replay(drafter: Drafter, inputs: Inputs, seen_NN: Tensor, blank_N: Tensor | None = None) -> Outputs:
    """Run the drafter's layers.

    Args:
        drafter: weights and wiring.
        inputs: of every row; ids without a row in the embedding stand for the first one (such a row is found by its id).
        seen_NN: bool [N, N], which rows each row attends to, itself included where it does.
        blank_N: int64 [N], to how many slots of the cache it attends besides that hold zeros; None for none.
    """
    device = drafter.device
    seen_NN = seen_NN.to(device)
    blank_N = None if blank_N is None else blank_N.to(device)

    def attend(q_NHD: Tensor, rows: KeyValue, scale: float) -> Tensor:
        return masked(q_NHD, rows, scale, seen_NN, blank_N)

    ids_N = inputs.ids_N.clamp(0, drafter.weights.embedding.size - 1).to(device)
    positions_N = inputs.positions_N.clamp(-MAX_ROTATED, MAX_ROTATED).to(device)
    hidden_NH = inputs.hidden_NH.to(device=device, dtype=drafter.dtype)
    final_NH, state_NH = drafter.run(ids_N, hidden_NH, positions_N, [attend] * len(drafter.layers))
    return Outputs(final_NH.to("cpu", torch.float32), state_NH.to("cpu", torch.float32))


def masked(
    q_NHD: Tensor, rows: KeyValue, scale: float, seen_NN: Tensor, blank_N: Tensor | None = None, *, budget: int = SCORE_BUDGET
) -> Tensor:
    """Softmax attention [N, NH, E] under a mask, float32 inside, in the dtype of the query.

    A slot of zeros has score 0 and adds nothing to the sum: ``blank_N`` of them only share in the weight. A row that is seen and not
    finite makes the row that sees it NaN, and no other; a row that sees nothing gets zeros.
    """
    count, heads, width = q_NHD.shape
    key_NKV, value_NKV = (x.to(torch.float32).transpose(0, 1) for x in rows)
    broken_N = ~(key_NKV.isfinite().flatten(2).all(2).all(0) & value_NKV.isfinite().flatten(2).all(2).all(0))
    key_NKV, value_NKV = key_NKV.nan_to_num(0.0, 0.0, 0.0), value_NKV.nan_to_num(0.0, 0.0, 0.0)
    kv_heads = key_NKV.shape[0]
    block = max(1, budget // (heads * max(1, key_NKV.shape[1])))
    out = []
    for start in range(0, count, block):
        q_QHD = q_NHD[start : start + block].to(torch.float32) * scale
        queries = len(q_QHD)
        seen_QN = seen_NN[start : start + block]
        grouped = q_QHD.view(queries, kv_heads, heads // kv_heads, width).permute(1, 2, 0, 3).reshape(kv_heads, -1, width)
        scores = (grouped @ key_NKV.transpose(1, 2)).view(kv_heads, heads // kv_heads, queries, -1)
        scores = scores.masked_fill(~seen_QN, float("-inf"))
        if blank_N is not None:
            shared_Q = blank_N[start : start + block].to(torch.float32).log()
            scores = torch.cat([scores, shared_Q[:, None].expand(*scores.shape[:-1], 1)], -1)
        weight = scores.softmax(-1).nan_to_num(0.0)[..., : seen_QN.shape[1]]
        mixed = (weight.reshape(kv_heads, -1, weight.shape[-1]) @ value_NKV).view(kv_heads, heads // kv_heads, queries, -1)
        mixed_QHE = mixed.permute(2, 0, 1, 3).reshape(queries, heads, -1)
        spoilt_Q = (seen_QN & broken_N).any(1) | ~q_QHD.isfinite().flatten(1).all(1)
        out.append(mixed_QHE.masked_fill(spoilt_Q[:, None, None], float("nan")))
    return torch.cat(out).to(q_NHD.dtype)
