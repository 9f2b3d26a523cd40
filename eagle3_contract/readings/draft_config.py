"""The drafter's config as an engine holds it: after the speculators layout, overrides, and the config class of its model_type.

Both SGLang and vLLM read config.json through transformers, so that a key that is absent has the default of the config class (LlamaConfig
is 4096 wide with 32 layers), ``rope_theta`` and ``rope_scaling`` end up in one ``rope_parameters`` (transformers 5,
modeling_rope_utils.py ``standardize_rope_params``: ``rope_scaling`` wins over ``rope_parameters``, ``type`` counts as ``rope_type``), and
a head_dim that is null or absent is hidden_size // num_attention_heads (Qwen3Config: 128).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.rules import Copy, Hit, Origin, Speculators

INERT_KEYS = frozenset(
    (
        "architectures",
        "auto_map",
        "bos_token_id",
        "dtype",
        "embed_requires_grad",
        "eos_token_id",
        "initializer_range",
        "model_type",
        "pad_token_id",
        "pretraining_tp",
        "speculators_config",
        "speculators_model_type",
        "speculators_version",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "_name_or_path",
        "attention_dropout",
        "has_no_defaults_at_init",
    )
)
"""Keys that decide no number of a drafter: not reported as ignored."""

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
CLASS_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "qwen3": _QWEN3,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
}
"""Defaults of the config classes (transformers 5.24.0: LlamaConfig, Qwen3Config, DeepseekV3Config; kimi_k2 is an alias of the latter
in SGLang 0.5.23 utils/hf_transformers/common.py:230-233 and vLLM 0.32.0)."""
MODEL_NAMES: Mapping[str, str] = {"llama": "LlamaModel", "qwen3": "Qwen3Model", "deepseek_v3": "DeepseekV3Model"}
"""What stands in for an absent ``architectures``: the base class of the model_type (transformers)."""


@dataclass(slots=True)
class DraftConfig:
    """Effective values, the defaults behind them, where in the file each came from, and which were read."""

    values: dict[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def get(self, path: str, *, mark: bool = True) -> tuple[Any, Origin]:
        """The value at a dotted path and where it came from; MISSING if neither file nor class has it. Marks the key as read, unless
        ``mark`` is False (an engine that only takes the length of a list does not read what is in it)."""
        if "." not in path and path not in self.values and path in self.defaults:
            return self.defaults[path], Origin.DEFAULT
        value: Any = self.values
        for part in path.split("."):
            if isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            elif isinstance(value, Mapping) and part in value:
                value = value[part]
            else:
                return MISSING, Origin.DEFAULT
        if mark:
            self.read.add(self.key(path.rsplit(".", 1)[0] if path.rsplit(".", 1)[-1].isdigit() else path))
        return value, self.origins.get(path) or self.origins.get(path.partition(".")[0], Origin.KEY)

    def key(self, path: str) -> str:
        """The key in the file behind a path (``transformer_layer_config.hidden_size``)."""
        return self.keys.get(path, path)


def build_config(
    raw: Mapping[str, Any],
    *,
    speculators: Speculators | None,
    copies: tuple[Copy, ...],
    overrides: Mapping[str, Any],
    class_defaults: bool,
    rope_parameters: bool,
) -> DraftConfig:
    """The config an engine works with.

    Args:
        raw: config.json.
        speculators: the engine's rule for the speculators layout, or None if it has none.
        copies: its outer keys, those in force at the version.
        overrides: keys from a flag, put over the file's.
        class_defaults: whether absent keys get the defaults of the model_type's config class.
        rope_parameters: whether ``rope_parameters`` is read (transformers 5).
    """
    layered = speculators is not None and "speculators_model_type" in raw
    config = _unfold(raw, speculators, copies) if layered and speculators is not None else DraftConfig(values=dict(raw))
    if class_defaults and not layered:
        config.defaults = dict(CLASS_DEFAULTS.get(str(raw.get("model_type")), {}))
        _derive(config)
    _rope(config, rope_parameters)
    for key, value in overrides.items():  # attributes of the finished config: rope_theta comes too late to be seen
        config.values[key], config.origins[key] = value, Origin.FLAG
    return config


def _unfold(raw: Mapping[str, Any], layout: Speculators, copies: tuple[Copy, ...]) -> DraftConfig:
    inner = raw.get("transformer_layer_config")
    config = DraftConfig(values=dict(inner) if isinstance(inner, Mapping) else {})
    config.keys = {k: f"transformer_layer_config.{k}" for k in config.values}
    for copy in copies:
        value = raw.get(copy.key)
        if copy.only is not None and not (value if copy.only is Hit.TRUTHY else value is not None):
            continue
        if copy.key in raw:
            config.values[copy.key], config.keys[copy.key] = value, copy.key
            config.read.add(copy.key)
        else:
            config.values[copy.key], config.origins[copy.key] = copy.default, Origin.DEFAULT
            config.keys[copy.key] = copy.key
    name = layout.architectures.get(str(config.values.get("model_type", "llama")))
    config.values["architectures"] = [name] if name else []
    return config


def _derive(config: DraftConfig) -> None:
    """Defaults that a config class computes: key/value heads from the heads, head_dim from the width."""
    values, defaults = config.values, dict(config.defaults)
    if not defaults:
        return
    heads, width = (values.get(k, defaults[k]) for k in ("num_attention_heads", "hidden_size"))
    if values.get("num_key_value_heads", 0) is None:
        del values["num_key_value_heads"]
        defaults["num_key_value_heads"] = heads
    defaults.setdefault("num_key_value_heads", heads)
    if values.get("head_dim", 0) is None:
        del values["head_dim"]
    if isinstance(heads, int) and isinstance(width, int) and heads > 0:
        defaults.setdefault("head_dim", width // heads)
    config.defaults = defaults


STRETCHED = ("llama3", "yarn", "longrope")
"""Rope types that know an original length (transformers 5.19.0 modeling_rope_utils.py:813-820)."""


def _original(config: DraftConfig, rope: dict[str, Any]) -> None:
    """The original length: a key beside the rope parameters wins over one inside; without either it is max_position_embeddings."""
    name, length = "original_max_position_embeddings", "max_position_embeddings"
    if name in config.values:
        rope[name] = config.values[name]
        config.keys[f"rope_parameters.{name}"] = config.key(name)
    elif name not in rope:
        rope[name] = config.values.get(length, config.defaults.get(length))
        config.keys[f"rope_parameters.{name}"] = config.key(length)


def _rope(config: DraftConfig, rope_parameters: bool) -> None:
    """One ``rope_parameters`` with rope_theta and rope_type in it, as transformers standardises it."""
    values = config.values
    holder = "rope_scaling" if isinstance(values.get("rope_scaling"), Mapping) and values["rope_scaling"] else "rope_parameters"
    chosen = values.get(holder) if holder == "rope_scaling" or rope_parameters else None
    rope = dict(chosen) if isinstance(chosen, Mapping) else {}
    for name in rope:
        config.keys[f"rope_parameters.{name}"] = config.key(holder) + "." + name
    for name in ("rope_theta", "partial_rotary_factor"):
        if (name not in rope or not rope_parameters) and values.get(name) is not None:
            rope[name] = values[name]
            config.keys[f"rope_parameters.{name}"] = config.key(name)
    if "rope_type" not in rope and "type" in rope:
        rope["rope_type"] = rope["type"]
        config.keys["rope_parameters.rope_type"] = config.keys["rope_parameters.type"]
    if rope_parameters and rope.get("rope_type") in STRETCHED:
        _original(config, rope)
    values["rope_parameters"] = rope
    config.origins["rope_parameters"] = Origin.KEY if rope else Origin.DEFAULT
    config.keys["rope_parameters"] = config.key(holder)
