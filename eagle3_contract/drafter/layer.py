"""One decoder layer of the drafter. Legend: L rows, H hidden size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from contract.errors import InputRejected
from eagle3_contract.drafter.attention import KeyValue
from eagle3_contract.drafter.grouped import GroupedAttention
from eagle3_contract.drafter.mla import LatentAttention
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.drafter.rope import RotaryEmbedding
from eagle3_contract.drafter.taps import Note
from eagle3_contract.drafter.weights import Weights
from eagle3_contract.model.wiring import Attention, ConcatOrder, LaterLayerNorm, Wiring

Attend: TypeAlias = Callable[[Tensor, KeyValue, float], Tensor]
"""Mixes values: rotated queries [L, NH, D], this call's keys and values, the score factor -> [L, NH, E]. Who calls the layer decides
which keys a query sees (a whole sequence, or a cache)."""


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "silu": F.silu,
    "swish": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": _gelu_tanh,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "relu": F.relu,
}
"""``hidden_act`` under its Hugging Face names."""


class Layer:
    """Layer ``index``. The first one takes the embedding and the hidden stream side by side, later ones the stream alone.

    Raises:
        InputRejected: ``drafter.hidden-act`` for an unknown activation.
    """

    def __init__(self, wiring: Wiring, weights: Weights, index: int, rope: RotaryEmbedding) -> None:
        if wiring.hidden_act not in ACTIVATIONS:
            raise InputRejected(
                f"hidden_act {wiring.hidden_act!r} is not one of {', '.join(ACTIVATIONS)}",
                rule="drafter.hidden-act",
                fix="Correct hidden_act in the configuration or the contract.",
            )
        self._wiring, self._weights, self._index = wiring, weights, index
        self._prefix = f"layers.{index}."
        self._activation = ACTIVATIONS[wiring.hidden_act]
        self._attention: GroupedAttention | LatentAttention
        if wiring.attention is Attention.MLA and wiring.mla is not None:
            self._attention = LatentAttention(wiring, wiring.mla, weights, self._prefix, rope)
        else:
            self._attention = GroupedAttention(wiring, weights, self._prefix, rope)

    def __call__(self, embedding_LH: Tensor, hidden_LH: Tensor, cos_LF: Tensor, sin_LF: Tensor, attend: Attend, note: Note) -> Tensor:
        """The residual stream [L, H] after this layer. ``embedding`` is used by the first layer only."""
        if self._index == 0:
            x_LC, residual_LH = self._first_entry(embedding_LH, hidden_LH, note)
        else:
            x_LC, residual_LH = self._later_entry(hidden_LH), hidden_LH
        note(f"{self._prefix}attn_in", x_LC)
        q_LND, rows = self._attention.project(x_LC, cos_LF, sin_LF)
        branch_LH = self._attention.output(attend(q_LND, rows, self._attention.scale))
        note(f"{self._prefix}attn_out", branch_LH)
        stream_LH = residual_LH + branch_LH
        branch_LH = self._mlp(self._norm("post_attention_layernorm", stream_LH))
        note(f"{self._prefix}mlp_out", branch_LH)
        stream_LH = stream_LH + branch_LH
        note(f"{self._prefix}out", stream_LH)
        return stream_LH

    def _norm(self, name: str, x_LH: Tensor) -> Tensor:
        return rms_norm(x_LH, self._weights[f"{self._prefix}{name}.weight"], self._wiring.rms_norm_eps)

    def _first_entry(self, embedding_LH: Tensor, hidden_LH: Tensor, note: Note) -> tuple[Tensor, Tensor]:
        """The attention input [L, 2H] of the first layer, and the residual that its branches are added to."""
        w = self._wiring
        embedding_LH = self._norm("input_layernorm", embedding_LH)
        note(f"{self._prefix}embedding_normed", embedding_LH)
        normed_LH = hidden_LH
        if w.double_norm:
            # ModelOpt >= 0.41: the decoder layer's own input_layernorm runs before the hook that applies hidden_norm.
            normed_LH = self._norm("input_layernorm", normed_LH)
        if w.hidden_norm:
            normed_LH = self._norm("hidden_norm", normed_LH)
        note(f"{self._prefix}hidden_normed", normed_LH)
        halves = (embedding_LH, normed_LH) if w.concat_order is ConcatOrder.EMBEDDING_FIRST else (normed_LH, embedding_LH)
        return torch.cat(halves, dim=-1), normed_LH if w.norm_before_residual else hidden_LH

    def _later_entry(self, hidden_LH: Tensor) -> Tensor:
        name = self._wiring.later_layer_norm
        return hidden_LH if name is LaterLayerNorm.NONE else self._norm(name.value, hidden_LH)

    def _mlp(self, x_LH: Tensor) -> Tensor:
        gated = self._activation(self._linear("gate_proj", x_LH)) * self._linear("up_proj", x_LH)
        return self._linear("down_proj", gated)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        key = f"{self._prefix}mlp.{name}"
        return F.linear(x, self._weights[f"{key}.weight"], self._weights.get(f"{key}.bias"))
