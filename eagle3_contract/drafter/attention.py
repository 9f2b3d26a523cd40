"""Causal attention over one document, in float32, a block of queries at a time.

Legend: Q queries, K keys, N key heads, G query heads per key head, D width of query and key, E width of value, B queries of a block,
S later steps whose own keys a query sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

SCORE_BUDGET: Final = 2**24
"""Scores that one block may hold (64 MiB of float32), so that memory grows with the length and not with its square."""


class KeyValue(NamedTuple):
    """Keys [K, N, D], already rotated, and values [K, N, E]."""

    key: Tensor
    value: Tensor

    def first(self, rows: int) -> KeyValue:
        """The first ``rows`` rows."""
        return KeyValue(self.key[:rows], self.value[:rows])


class Sight(NamedTuple):
    """What the queries of one call see of the shared keys.

    Query i stands at row ``first_row + i`` and sees keys up to that row. With a ``window`` W it sees those above row
    ``first_row + i + advance - W`` only; ``advance`` is how far a later step has moved on past its row.
    """

    first_row: int
    window: int | None = None
    advance: int = 0

    def lowest(self, query: int) -> int:
        """The first key row that a query sees; the end of its row if it sees none."""
        row = self.first_row + query
        return 0 if self.window is None else min(row + 1, max(0, row + self.advance - self.window + 1))


def attend(
    q_QHD: Tensor, shared: KeyValue, sight: Sight, scale: float, own: Sequence[KeyValue] = (), *, budget: int = SCORE_BUDGET
) -> Tensor:
    """Softmax attention [Q, H, E] of queries [Q, H, D], in the dtype of the query.

    Args:
        q_QHD: rotated queries; head h uses key head h // G.
        shared: the rows of the document that every query may see, subject to ``sight``.
        scale: factor on the scores.
        own: keys and values [Q, N, D] and [Q, N, E] of later steps; query i sees row i of each, and no other.
        budget: scores that may be held at once.

    Scores, softmax and the weighted sum are float32, as in the engines' attention kernels.
    """
    queries, heads, _ = q_QHD.shape
    key_NKD = shared.key.to(torch.float32).transpose(0, 1)
    value_NKE = shared.value.to(torch.float32).transpose(0, 1)
    own_wide = [KeyValue(o.key.to(torch.float32), o.value.to(torch.float32)) for o in own]
    last_key = min(key_NKD.shape[1], sight.first_row + queries)
    block = max(1, budget // (heads * max(1, last_key + len(own))))
    out = [
        _block(q_QHD[start : start + block].to(torch.float32) * scale, key_NKD, value_NKE, start, sight, own_wide)
        for start in range(0, queries, block)
    ]
    return torch.cat(out).to(q_QHD.dtype) if out else q_QHD.new_zeros((0, heads, value_NKE.shape[-1]))


def _block(q_BHD: Tensor, key_NKD: Tensor, value_NKE: Tensor, start: int, sight: Sight, own: Sequence[KeyValue]) -> Tensor:
    queries, heads, width = q_BHD.shape
    kv_heads = key_NKD.shape[0]
    group = heads // kv_heads
    low = sight.lowest(start)
    high = min(key_NKD.shape[1], sight.first_row + start + queries)
    q_NGBD = q_BHD.view(queries, kv_heads, group, width).permute(1, 2, 0, 3)
    scores_NGBK = (q_NGBD.reshape(kv_heads, group * queries, width) @ key_NKD[:, low:high].transpose(1, 2)).view(
        kv_heads, group, queries, high - low
    )
    scores_NGBK = scores_NGBK.masked_fill(~_seen(start, queries, low, high, sight, q_BHD.device), float("-inf"))
    own_NGBS = [(q_NGBD * o.key[start : start + queries].transpose(0, 1)[:, None]).sum(-1, keepdim=True) for o in own]
    weight = torch.cat((scores_NGBK, *own_NGBS), dim=-1).softmax(dim=-1)
    weight_NMK = weight[..., : high - low].reshape(kv_heads, group * queries, high - low)
    out_NGBE = (weight_NMK @ value_NKE[:, low:high]).view(kv_heads, group, queries, -1)
    for step, o in enumerate(own):
        out_NGBE = out_NGBE + weight[..., high - low + step, None] * o.value[start : start + queries].transpose(0, 1)[:, None]
    return out_NGBE.permute(2, 0, 1, 3).reshape(queries, heads, -1)


def _seen(start: int, queries: int, low: int, high: int, sight: Sight, device: torch.device) -> Tensor:
    """Mask [B, K]: which of the keys low ... high - 1 each query of the block sees."""
    row_B1 = torch.arange(sight.first_row + start, sight.first_row + start + queries, device=device)[:, None]
    key_K = torch.arange(low, high, device=device)
    seen_BK = key_K <= row_B1
    if sight.window is not None:
        seen_BK &= key_K > row_B1 + sight.advance - sight.window
    return seen_BK
