"""Small drafters and targets for the tests of readings."""

from __future__ import annotations

from typing import Any

from eagle3_contract.readings.view import DrafterView, Target

WIDTH, HEADS, KV, HEAD, INNER, VOCAB, DRAFT = 64, 4, 2, 32, 128, 256, 128


def config(**more: Any) -> dict[str, Any]:
    """A plain drafter config; a value ``...`` removes the key."""
    base: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV,
        "head_dim": HEAD,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "vocab_size": VOCAB,
        "draft_vocab_size": DRAFT,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    return {k: v for k, v in (base | more).items() if v is not ...}


def headers(states: int = 3, layer: str = "midlayer", dtype: str = "BF16") -> dict[str, tuple[str, list[int]]]:
    shapes = {
        "fc.weight": [WIDTH, states * WIDTH],
        "norm.weight": [WIDTH],
        "lm_head.weight": [DRAFT, WIDTH],
        f"{layer}.hidden_norm.weight": [WIDTH],
        f"{layer}.input_layernorm.weight": [WIDTH],
        f"{layer}.post_attention_layernorm.weight": [WIDTH],
        f"{layer}.self_attn.q_proj.weight": [HEADS * HEAD, 2 * WIDTH],
        f"{layer}.self_attn.k_proj.weight": [KV * HEAD, 2 * WIDTH],
        f"{layer}.self_attn.v_proj.weight": [KV * HEAD, 2 * WIDTH],
        f"{layer}.self_attn.o_proj.weight": [WIDTH, HEADS * HEAD],
        f"{layer}.mlp.gate_proj.weight": [INNER, WIDTH],
        f"{layer}.mlp.up_proj.weight": [INNER, WIDTH],
        f"{layer}.mlp.down_proj.weight": [WIDTH, INNER],
    }
    return {name: (dtype, shape) for name, shape in shapes.items()} | {"d2t": ("I64", [DRAFT]), "t2d": ("BOOL", [VOCAB])}


def drafter(states: int = 3, layer: str = "midlayer", *, tensors: dict[str, Any] | None = None, **keys: Any) -> DrafterView:
    """A drafter of ``states`` states; ``keys`` are config keys, ``tensors`` headers over the default ones (``...`` removes)."""
    merged = {k: v for k, v in (headers(states, layer) | (tensors or {})).items() if v is not ...}
    return DrafterView.of(config(**keys), merged)


def target(architecture: str = "LlamaForCausalLM", layers: int = 32, **more: Any) -> Target:
    base = {
        "architectures": [architecture],
        "num_hidden_layers": layers,
        "hidden_size": WIDTH,
        "vocab_size": VOCAB,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
    return Target(base | more)
