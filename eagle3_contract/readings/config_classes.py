"""What a config class of transformers adds to a drafter's config.json: ``model_type`` picks the class, in SGLang and in vLLM.

A drafter with model_type gpt_oss is run by vLLM with a window of 128, one with glm4 rotates half of each head, one with mixtral has a
theta of a million: no key of the file says so. What a class does that is not in these tables is not known (``has_class``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_LAYERS = 1024
"""Layer types beyond are not listed, so that a hostile config cannot exhaust memory."""
_LLAMA: dict[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
}
_QWEN3: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "use_sliding_window": False,
    "max_window_layers": 28,
}
_DEEPSEEK_V3: dict[str, Any] = {
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "num_nextn_predict_layers": 1,
}
_QWEN2: dict[str, Any] = {k: v for k, v in _QWEN3.items() if k not in ("head_dim", "attention_bias")}
_PHI3: dict[str, Any] = {
    "vocab_size": 32064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "sliding_window": None,
}
_MISTRAL: dict[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "sliding_window": 4096,
}
_MIXTRAL: dict[str, Any] = _MISTRAL | {"rms_norm_eps": 1e-5, "sliding_window": None}
_GPT_OSS: dict[str, Any] = {
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "attention_bias": True,
    "sliding_window": 128,
}
_GLM4: dict[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1.5625e-7,
    "tie_word_embeddings": False,
    "attention_bias": True,
}
_GLM4_MOE: dict[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "num_hidden_layers": 46,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
_MINIMAX_M2: dict[str, Any] = {
    "vocab_size": 200064,
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 196608,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
CLASS_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "qwen2": _QWEN2,
    "qwen3": _QWEN3,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "phi3": _PHI3,
    "mistral": _MISTRAL,
    "mixtral": _MIXTRAL,
    "gpt_oss": _GPT_OSS,
    "glm4": _GLM4,
    "glm4_moe": _GLM4_MOE,
    "minimax_m2": _MINIMAX_M2,
}
"""Defaults of the config classes (transformers 5.24.0: LlamaConfig, Qwen3Config, DeepseekV3Config, ...; kimi_k2 is an alias of the latter
in SGLang 0.5.23 utils/hf_transformers/common.py:230-233 and vLLM 0.32.0 transformers_utils/config.py:100)."""
WITHOUT_HEAD_DIM = frozenset({"qwen2", "phi3", "mixtral", "glm4_moe"})
"""Classes that compute no head_dim: it stays absent (or null), and the engine divides the width by the heads."""
CLASS_THETA: Mapping[str, float] = {"mixtral": 1e6, "gpt_oss": 150000.0, "minimax_m2": 5e6}
"""rope_theta where no key gives one (``default_theta`` of the class); 10000 for every other class of the table."""
CLASS_PARTIAL: Mapping[str, float] = {"glm4": 0.5, "glm4_moe": 0.5, "phi3": 1.0}
"""partial_rotary_factor where no key gives one (transformers glm4/configuration_glm4.py:77, glm4_moe:123, phi3)."""
CLASS_ROPE: Mapping[str, Mapping[str, Any]] = {
    "gpt_oss": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    }
}
"""rope_parameters where neither they nor rope_scaling are given."""
SWITCHED_WINDOW = frozenset({"qwen2", "qwen3"})
"""Classes that forget sliding_window unless use_sliding_window is true, and then give it to the layers from max_window_layers on."""
EVERY_OTHER_LAYER = frozenset({"gpt_oss"})
"""Classes whose even layers slide unless layer_types says otherwise."""
AS_BEFORE = frozenset({"eagle", "eagle3"})
"""Types of wrappers that hold no defaults of a decoder (vLLM 0.32.0 transformers_utils/config.py:118), or that no engine knows (loud)."""


def has_class(config: Mapping[str, Any]) -> bool:
    """Whether it is known what the class of this config's model_type adds to it; also where no class is looked up at all."""
    name = config.get("model_type")
    if name is None or "speculators_model_type" in config or not isinstance(name, str):
        return True
    scaled = any(isinstance(config.get(k), Mapping) and config[k] for k in ("rope_scaling", "rope_parameters"))
    return name in AS_BEFORE or (name in CLASS_DEFAULTS and not (name == "phi3" and scaled))


def window_of_class(name: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """sliding_window and layer_types as the class sets them over what the file says; nothing for classes that leave both alone."""

    def key(path: str) -> Any:
        return values.get(path, defaults.get(path))

    layers = key("num_hidden_layers")
    count = min(layers, MOST_LAYERS) if isinstance(layers, int) and not isinstance(layers, bool) else 0
    changed: dict[str, Any] = {}
    if name in SWITCHED_WINDOW:
        window = values.get("sliding_window", 4096) if key("use_sliding_window") else None
        first = key("max_window_layers")
        changed["sliding_window"] = window
        if values.get("layer_types") is None:
            late = isinstance(first, int) and window is not None
            changed["layer_types"] = ["sliding_attention" if late and i >= first else "full_attention" for i in range(count)]
    elif name in EVERY_OTHER_LAYER and values.get("layer_types") is None:
        changed["layer_types"] = ["full_attention" if i % 2 else "sliding_attention" for i in range(count)]
    return changed


MODEL_NAMES: Mapping[str, str] = {"llama": "LlamaModel", "qwen3": "Qwen3Model", "deepseek_v3": "DeepseekV3Model"}
"""What stands in for an absent ``architectures``: the base class of the model_type (transformers)."""
