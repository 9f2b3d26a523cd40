"""The tensors that a wiring needs, with their shapes. No torch: the static checks use it too.

Sizes as in ``eagle3_contract.model.wiring``.
"""

from __future__ import annotations

from eagle3_contract.drafter.names import EMBEDDING, HEAD
from eagle3_contract.model.wiring import Attention, LaterLayerNorm, NormBeforeFc, Owner, Wiring

Shapes = dict[str, tuple[int, ...]]


def tensor_shapes(wiring: Wiring) -> Shapes:
    """Canonical name to shape of every tensor of the drafter that this wiring's arithmetic uses, its own ones only.

    The vocab map is not among them (it belongs to proposing tokens, not to the arithmetic). ``TIED_TO_OWN`` needs the own embedding
    even where the embedding that is looked up is the target's. An embedding may have more rows than the target's vocabulary (padding).
    """
    w = wiring
    shapes: Shapes = {}
    if w.fc_applied:
        width = w.states * w.target_hidden_size
        shapes["fc.weight"] = (w.hidden_size, width)
        if w.fc_bias:
            shapes["fc.bias"] = (w.hidden_size,)
        if NormBeforeFc.INPUT_NORM in w.norms_before_fc:
            shapes["input_norm.weight"] = (width,)
        if NormBeforeFc.FC_NORM in w.norms_before_fc:
            shapes |= {f"fc_norm.{i}.weight": (w.target_hidden_size,) for i in range(w.states)}
    for layer in range(w.layers):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in _layer(w, layer).items()}
    if w.final_norm:
        shapes["norm.weight"] = (w.hidden_size,)
    if w.lm_head is Owner.OWN:
        shapes[HEAD] = (w.draft_vocab_size, w.hidden_size)
    if w.embedding is Owner.OWN or w.lm_head is Owner.TIED_TO_OWN:
        shapes[EMBEDDING] = (w.target_vocab_size, w.hidden_size)
    return shapes


def _layer(w: Wiring, layer: int) -> Shapes:
    shapes = _latent(w, layer) if w.attention is Attention.MLA else _grouped(w, layer)
    if layer == 0:
        shapes["input_layernorm.weight"] = (w.hidden_size,)
        if w.hidden_norm:
            shapes["hidden_norm.weight"] = (w.hidden_size,)
    elif w.later_layer_norm is not LaterLayerNorm.NONE:
        shapes[f"{w.later_layer_norm.value}.weight"] = (w.hidden_size,)
    shapes["post_attention_layernorm.weight"] = (w.hidden_size,)
    for name, out_size, in_size in (
        ("gate_proj", w.intermediate_size, w.hidden_size),
        ("up_proj", w.intermediate_size, w.hidden_size),
        ("down_proj", w.hidden_size, w.intermediate_size),
    ):
        shapes[f"mlp.{name}.weight"] = (out_size, in_size)
        if w.mlp_bias:
            shapes[f"mlp.{name}.bias"] = (out_size,)
    return shapes


def attention_input_size(wiring: Wiring, layer: int) -> int:
    """Width of a layer's attention input: embedding and hidden stream side by side in the first layer, H after it."""
    return 2 * wiring.hidden_size if layer == 0 else wiring.hidden_size


def _grouped(w: Wiring, layer: int) -> Shapes:
    width = attention_input_size(w, layer)
    query, key = w.heads * w.head_dim, w.kv_heads * w.head_dim
    shapes: Shapes = {}
    for name, size in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
        shapes[f"self_attn.{name}.weight"] = (size, width)
        if w.qkv_bias:
            shapes[f"self_attn.{name}.bias"] = (size,)
    if w.qk_norm:
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = (w.head_dim,)
    return shapes | _output(w, query)


def _latent(w: Wiring, layer: int) -> Shapes:
    m = w.mla
    if m is None:
        return {}
    width = attention_input_size(w, layer)
    query = w.heads * (m.qk_nope_head_dim + m.qk_rope_head_dim)
    latent = m.kv_lora_rank + m.qk_rope_head_dim
    shapes: Shapes = {
        "self_attn.kv_a_proj_with_mqa.weight": (latent, width),
        "self_attn.kv_a_layernorm.weight": (m.kv_lora_rank,),
        "self_attn.kv_b_proj.weight": (w.heads * (m.qk_nope_head_dim + m.v_head_dim), m.kv_lora_rank),
    }
    if w.qkv_bias:
        shapes["self_attn.kv_a_proj_with_mqa.bias"] = (latent,)
    if m.q_lora_rank is None:
        shapes["self_attn.q_proj.weight"] = (query, width)
    else:
        shapes["self_attn.q_a_proj.weight"] = (m.q_lora_rank, width)
        shapes["self_attn.q_a_layernorm.weight"] = (m.q_lora_rank,)
        shapes["self_attn.q_b_proj.weight"] = (query, m.q_lora_rank)
        if w.qkv_bias:
            shapes["self_attn.q_a_proj.bias"] = (m.q_lora_rank,)
    return shapes | _output(w, w.heads * m.v_head_dim)


def _output(w: Wiring, width: int) -> Shapes:
    shapes: Shapes = {"self_attn.o_proj.weight": (w.hidden_size, width)}
    if w.o_bias:
        shapes["self_attn.o_proj.bias"] = (w.hidden_size,)
    return shapes
