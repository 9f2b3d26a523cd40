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
from eagle3_contract.readings.config_classes import (
    CLASS_DEFAULTS,
    CLASS_PARTIAL,
    CLASS_ROPE,
    CLASS_THETA,
    WITHOUT_HEAD_DIM,
    window_of_class,
)
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
    rotary_keys: tuple[str, ...] = (),
) -> DraftConfig:
    """The config an engine works with.

    Args:
        raw: config.json.
        speculators: the engine's rule for the speculators layout, or None if it has none.
        copies: its outer keys, those in force at the version.
        overrides: keys from a flag, put over the file's.
        class_defaults: whether absent keys get the defaults of the model_type's config class.
        rope_parameters: whether ``rope_parameters`` is read (transformers 5).
        rotary_keys: other names of partial_rotary_factor that the engine reads, in its order.
    """
    layered = speculators is not None and "speculators_model_type" in raw
    config = _unfold(raw, speculators, copies) if layered and speculators is not None else DraftConfig(values=dict(raw))
    if class_defaults and not layered:
        name = str(raw.get("model_type"))
        config.defaults = dict(CLASS_DEFAULTS.get(name, {}))
        _derive(config, name)
        for key, value in window_of_class(name, config.values, config.defaults).items():
            if value != config.values.get(key):
                config.values[key], config.origins[key] = value, Origin.DEFAULT
        _rope(config, rope_parameters, name, rotary_keys=rotary_keys)
    else:
        _rope(config, rope_parameters, rotary_keys=rotary_keys)
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


def _derive(config: DraftConfig, name: str) -> None:
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
    if name not in WITHOUT_HEAD_DIM and isinstance(heads, int) and isinstance(width, int) and heads > 0:
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


def _rope_of_class(config: DraftConfig, rope: dict[str, Any], name: str, *, given: bool) -> None:
    """Theta, the rotated share and the whole scheme where the class has values of its own and no key has."""
    rotary, head_dim = config.values.get("rotary_dim"), config.get("head_dim", mark=False)[0]
    added: dict[str, Any] = {} if given else dict(CLASS_ROPE.get(name, {}))
    if name in CLASS_THETA:
        added["rope_theta"] = CLASS_THETA[name]
    if name in CLASS_PARTIAL:
        added["partial_rotary_factor"] = CLASS_PARTIAL[name]
    if name == "minimax_m2" and isinstance(rotary, int) and isinstance(head_dim, int) and head_dim > 0:
        added["partial_rotary_factor"] = rotary / head_dim  # minimax_m2/configuration_minimax_m2.py:100-103
        config.read.add("rotary_dim")
    for key, value in added.items():
        if key not in rope:
            rope[key] = value
            config.origins[f"rope_parameters.{key}"] = Origin.DEFAULT


def _rope(config: DraftConfig, rope_parameters: bool, name: str = "", *, rotary_keys: tuple[str, ...] = ()) -> None:
    """One ``rope_parameters`` with rope_theta and rope_type in it, as transformers standardises it; ``name``: the model_type whose class
    fills in what no key says."""
    values = config.values
    holder = "rope_scaling" if isinstance(values.get("rope_scaling"), Mapping) and values["rope_scaling"] else "rope_parameters"
    chosen = values.get(holder) if holder == "rope_scaling" or rope_parameters else None
    rope = dict(chosen) if isinstance(chosen, Mapping) else {}
    for key in rope:
        config.keys[f"rope_parameters.{key}"] = config.key(holder) + "." + key
    for key in ("rope_theta", "partial_rotary_factor"):
        if (key not in rope or not rope_parameters) and values.get(key) is not None:
            rope[key] = values[key]
            config.keys[f"rope_parameters.{key}"] = config.key(key)
    _rope_of_class(config, rope, name, given=isinstance(chosen, Mapping))
    alias = next((k for k in rotary_keys if values.get(k) is not None), None)
    if alias is not None and rope_parameters and "partial_rotary_factor" not in rope:
        rope["partial_rotary_factor"] = values[alias]
        config.keys["rope_parameters.partial_rotary_factor"] = config.key(alias)
    if "rope_type" not in rope and "type" in rope:
        rope["rope_type"] = rope["type"]
        config.keys["rope_parameters.rope_type"] = config.keys["rope_parameters.type"]
    if rope_parameters and rope.get("rope_type") in STRETCHED:
        _original(config, rope)
    values["rope_parameters"] = rope
    from_class = all(config.origins.get(f"rope_parameters.{key}") is Origin.DEFAULT for key in rope)
    config.origins["rope_parameters"] = Origin.DEFAULT if from_class else Origin.KEY
    config.keys["rope_parameters"] = config.key(holder)
