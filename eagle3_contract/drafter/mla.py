"""Multi-head latent attention of ``Eagle3DeepseekV2ForCausalLM`` (Kimi, DeepSeek drafters), in its expanded form.

The down projections take the first layer's concatenation, so their input is 2H wide (SGLang 0.5.23 srt/models/kimi_k25_eagle3.py);
everything else is DeepSeek-V2's layer. Engines fold kv_b_proj into the query and the output instead of expanding; the product is the
same.

Legend: L rows, C input width, N heads, P = qk_nope_head_dim, R = qk_rope_head_dim, E = v_head_dim, K = kv_lora_rank.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from eagle3_contract.drafter.attention import KeyValue
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.drafter.rope import RotaryEmbedding, latent_scale
from eagle3_contract.drafter.weights import Weights
from eagle3_contract.model.wiring import Mla, Wiring


class LatentAttention:
    """One layer's attention around the softmax. ``scale`` is the factor on the scores, YaRN's temperature included."""

    def __init__(self, wiring: Wiring, sizes: Mla, weights: Weights, prefix: str, rope: RotaryEmbedding) -> None:
        self._sizes, self._heads, self._weights, self._prefix, self._rope = sizes, wiring.heads, weights, f"{prefix}self_attn.", rope
        self._eps = wiring.rms_norm_eps if sizes.norm_eps is None else sizes.norm_eps
        natural = (sizes.qk_nope_head_dim + sizes.qk_rope_head_dim) ** -0.5 * latent_scale(wiring.rope)
        self.scale = wiring.attention_scale if wiring.attention_scale is not None else natural

    def _linear(self, name: str, x_LC: Tensor) -> Tensor:
        return F.linear(x_LC, self._weights[f"{self._prefix}{name}.weight"], self._weights.get(f"{self._prefix}{name}.bias"))

    def _norm(self, name: str, x_LK: Tensor) -> Tensor:
        return rms_norm(x_LK, self._weights[f"{self._prefix}{name}.weight"], self._eps)

    def project(self, x_LC: Tensor, cos_LF: Tensor, sin_LF: Tensor) -> tuple[Tensor, KeyValue]:
        """Queries [L, N, P+R] and keys [L, N, P+R], both rotated in their last R dimensions, and values [L, N, E]."""
        m, rows = self._sizes, x_LC.shape[0]
        if m.q_lora_rank is None:
            query = self._linear("q_proj", x_LC)
        else:
            query = self._linear("q_b_proj", self._norm("q_a_layernorm", self._linear("q_a_proj", x_LC)))
        q_LNP, q_LNR = torch.split(
            query.view(rows, self._heads, m.qk_nope_head_dim + m.qk_rope_head_dim), [m.qk_nope_head_dim, m.qk_rope_head_dim], dim=-1
        )
        latent_LK, k_LR = torch.split(self._linear("kv_a_proj_with_mqa", x_LC), [m.kv_lora_rank, m.qk_rope_head_dim], dim=-1)
        expanded = self._linear("kv_b_proj", self._norm("kv_a_layernorm", latent_LK))
        k_LNP, v_LNE = torch.split(
            expanded.view(rows, self._heads, m.qk_nope_head_dim + m.v_head_dim), [m.qk_nope_head_dim, m.v_head_dim], dim=-1
        )
        # One rotated key part is shared by all heads.
        k_LNR = self._rope.rotate(k_LR[:, None, :], cos_LF, sin_LF).expand(-1, self._heads, -1)
        q_LND = torch.cat((q_LNP, self._rope.rotate(q_LNR, cos_LF, sin_LF)), dim=-1)
        return q_LND, KeyValue(torch.cat((k_LNP, k_LNR), dim=-1), v_LNE)

    def output(self, mixed_LNE: Tensor) -> Tensor:
        """The attention branch [L, H] of mixed values [L, N, E]."""
        return self._linear("o_proj", mixed_LNE.flatten(1))
