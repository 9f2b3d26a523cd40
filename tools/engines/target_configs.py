"""Configs of the tiny targets, by name: family and number of layers.

The rope of DeepSeek's class is said twice, as SGLang and transformers read it.
"""

from __future__ import annotations

from typing import Any

HIDDEN, WIDE = 64, 96


def _plain(family: str, architecture: str, layers: int, **more: Any) -> dict[str, Any]:
    base = {
        "architectures": [architecture],
        "model_type": family,
        "dtype": "float32",
        "vocab_size": 256,
        "hidden_size": HIDDEN,
        "intermediate_size": 128,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return base | more


def _qwen2(layers: int, **more: Any) -> dict[str, Any]:
    made = _plain("qwen2", "Qwen2ForCausalLM", layers, num_attention_heads=2, num_key_value_heads=1, use_sliding_window=False)
    return {k: v for k, v in made.items() if k not in ("head_dim", "attention_bias")} | more


def _deepseek(layers: int, latent: int = 32, rope: int = 16) -> dict[str, Any]:
    yarn = {"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1}
    yarn |= {"mscale": 1.0, "mscale_all_dim": 1.0, "rope_theta": 10000.0}
    sizes = {"kv_lora_rank": latent, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": rope, "v_head_dim": 16}
    dense = {
        "first_k_dense_replace": layers,
        "moe_layer_freq": 1,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
    }
    routing = {"n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "norm_topk_prob": True, "routed_scaling_factor": 2.5}
    made = _plain("deepseek_v3", "DeepseekV3ForCausalLM", layers, num_key_value_heads=4, rms_norm_eps=1e-6) | sizes | dense | routing
    return made | {"head_dim": rope, "rope_parameters": yarn, "rope_scaling": dict(yarn), "rope_theta": 10000.0}


def _gpt_oss(layers: int) -> dict[str, Any]:
    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "rope_theta": 150000.0, "truncate": False}
    yarn |= {"beta_fast": 32.0, "beta_slow": 1.0}
    kinds = ["sliding_attention", "full_attention"]
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "swiglu_limit": 7.0, "intermediate_size": 64, "attention_bias": True}
    made = _plain("gpt_oss", "GptOssForCausalLM", layers) | experts
    return made | {"sliding_window": 64, "layer_types": [kinds[n % 2] for n in range(layers)], "rope_parameters": yarn}


TARGETS: dict[str, dict[str, Any]] = {
    "llama8": _plain("llama", "LlamaForCausalLM", 8),
    "llama9": _plain("llama", "LlamaForCausalLM", 9, rms_norm_eps=1e-6),
    "llama8wide": _plain("llama", "LlamaForCausalLM", 8, hidden_size=WIDE),
    "llama8tied": _plain("llama", "LlamaForCausalLM", 8, tie_word_embeddings=True),
    "qwen2_8": _qwen2(8),
    "qwen2_10tied": _qwen2(10, tie_word_embeddings=True),
    "qwen3_8": _plain("qwen3", "Qwen3ForCausalLM", 8),
    "qwen3_10": _plain("qwen3", "Qwen3ForCausalLM", 10, rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"}),
    "dsv3_7": _deepseek(7),
    "dsv3_8": _deepseek(8),
    "dsv3w_9": _deepseek(9, latent=512, rope=64),
    "gptoss_8": _gpt_oss(8),
    "gptoss_10": _gpt_oss(10),
}
