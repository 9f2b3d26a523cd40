"""Grouped-query attention of a drafter layer (Llama, Qwen): projections, head norms, rotation.

Legend: L rows, C input width (2H in the first layer), H hidden size, N heads, D head dim.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from eagle3_contract.drafter.attention import KeyValue
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.drafter.rope import RotaryEmbedding
from eagle3_contract.drafter.weights import Weights
from eagle3_contract.model.wiring import Wiring


class GroupedAttention:
    """One layer's attention around the softmax. ``scale`` is the factor on the scores."""

    def __init__(self, wiring: Wiring, weights: Weights, prefix: str, rope: RotaryEmbedding) -> None:
        self._wiring, self._weights, self._prefix, self._rope = wiring, weights, f"{prefix}self_attn.", rope
        self.scale = wiring.attention_scale if wiring.attention_scale is not None else wiring.head_dim**-0.5

    def _linear(self, name: str, x_LC: Tensor) -> Tensor:
        return F.linear(x_LC, self._weights[f"{self._prefix}{name}.weight"], self._weights.get(f"{self._prefix}{name}.bias"))

    def project(self, x_LC: Tensor, cos_LF: Tensor, sin_LF: Tensor) -> tuple[Tensor, KeyValue]:
        """Rotated queries [L, NH, D], rotated keys [L, NKV, D] and values [L, NKV, D]."""
        w, rows = self._wiring, x_LC.shape[0]
        q_LND = self._linear("q_proj", x_LC).view(rows, w.heads, w.head_dim)
        k_LND = self._linear("k_proj", x_LC).view(rows, w.kv_heads, w.head_dim)
        v_LND = self._linear("v_proj", x_LC).view(rows, w.kv_heads, w.head_dim)
        if w.qk_norm:
            # Qwen3 norms each head before the rotation (transformers modeling_qwen3.py, Qwen3Attention.forward).
            q_LND = rms_norm(q_LND, self._weights[f"{self._prefix}q_norm.weight"], w.rms_norm_eps)
            k_LND = rms_norm(k_LND, self._weights[f"{self._prefix}k_norm.weight"], w.rms_norm_eps)
        return self._rope.rotate(q_LND, cos_LF, sin_LF), KeyValue(self._rope.rotate(k_LND, cos_LF, sin_LF), v_LND)

    def output(self, mixed_LND: Tensor) -> Tensor:
        """The attention branch [L, H] of mixed values [L, NH, D]."""
        return self._linear("o_proj", mixed_LND.flatten(1))
