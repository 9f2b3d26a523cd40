"""A variant of a drafter: what it says in config.json, which tensors it holds, and its folder on disk."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCAB, DRAFT_VOCAB = 64, 4, 2, 32, 128, 256, 128
GONE = ...
"""As a value: the key or tensor is left out."""
Shapes = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One drafter and how it is served.

    Attributes:
        name: its folder and the id of its row.
        target: name of a target (``variants.TARGETS``).
        config: config keys over the base ones; ``...`` removes.
        tensors: shapes (or tensors) over the base ones; ``...`` removes.
        states: how many states fc is wide.
        base: ``llama``, ``qwen3`` or ``mla``: which drafter it is a variant of.
        flags: serving flags over the default call.
        files: tensors by file, where they are not all in model.safetensors; a name may be in several.
        index: whether a sharded drafter has its index.
        whole: the config as a whole, instead of base and ``config`` (speculators layout).
        note: what it asks.
    """

    name: str
    target: str = "llama8"
    config: Mapping[str, Any] = field(default_factory=dict)
    tensors: Shapes = field(default_factory=dict)
    states: int = 3
    base: str = "llama"
    layer: str = "midlayer"
    flags: Mapping[str, Any] = field(default_factory=dict)
    files: Callable[[str], tuple[str, ...]] | None = None
    index: bool = True
    whole: Mapping[str, Any] | None = None
    note: str = ""


def base_config(kind: str) -> dict[str, Any]:
    """A plain, complete config of each kind of drafter."""
    shared = {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
        "rope_theta": 10000.0,
        "draft_vocab_size": DRAFT_VOCAB,
    }
    if kind == "mla":
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1}
        latent = {"q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16}
        experts = {"moe_intermediate_size": 32, "moe_layer_freq": 1, "first_k_dense_replace": 1}
        scaling = {"rope_scaling": yarn | {"type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0, "rope_theta": 10000.0}}
        named = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "kimi_k2", "num_key_value_heads": HEADS}
        return shared | named | latent | experts | scaling
    plain = {"num_key_value_heads": KV_HEADS, "head_dim": HEAD}
    if kind == "qwen3":
        return shared | plain | {"architectures": ["Eagle3Qwen3ForCausalLM"], "model_type": "qwen3"}
    return shared | plain | {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}


def base_shapes(kind: str, layer: str, states: int, config: Mapping[str, Any]) -> dict[str, Any]:
    """Shapes of the tensors that a drafter of this kind holds."""
    attention = {"q_proj": (HEADS * HEAD, 2 * HIDDEN), "k_proj": (KV_HEADS * HEAD, 2 * HIDDEN), "v_proj": (KV_HEADS * HEAD, 2 * HIDDEN)}
    attention["o_proj"] = (HIDDEN, HEADS * HEAD)
    if kind == "qwen3":
        attention |= {"q_norm": (HEAD,), "k_norm": (HEAD,)}
    if kind == "mla":
        low, latent, rope, nope, v = (
            config.get(k, 0) for k in ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
        )
        attention = {
            "q_a_proj": (low or 32, 2 * HIDDEN),
            "kv_a_proj_with_mqa": (latent + rope, 2 * HIDDEN),
            "q_a_layernorm": (low or 32,),
            "kv_a_layernorm": (latent,),
            "q_b_proj": (HEADS * (nope + rope), low or 32),
            "kv_b_proj": (HEADS * (nope + v), latent),
            "o_proj": (HIDDEN, HEADS * v),
        }
    shapes: dict[str, Any] = {f"{layer}.self_attn.{k}.weight": s for k, s in attention.items()}
    shapes |= {f"{layer}.mlp.{k}_proj.weight": (INNER, HIDDEN) for k in ("gate", "up")} | {f"{layer}.mlp.down_proj.weight": (HIDDEN, INNER)}
    shapes |= {f"{layer}.{k}.weight": (HIDDEN,) for k in ("input_layernorm", "hidden_norm", "post_attention_layernorm")}
    return shapes | {
        "fc.weight": (HIDDEN, states * HIDDEN),
        "norm.weight": (HIDDEN,),
        "lm_head.weight": (DRAFT_VOCAB, HIDDEN),
        "d2t": offsets(),
        "t2d": seen(),
    }


def kept(size: int = DRAFT_VOCAB) -> torch.Tensor:
    """The target ids of a reduced vocabulary, ascending."""
    return torch.randperm(VOCAB, generator=torch.Generator().manual_seed(3))[:size].sort().values


def offsets(size: int = DRAFT_VOCAB) -> torch.Tensor:
    """d2t: target id minus draft id."""
    return kept(size) - torch.arange(size)


def seen(size: int = DRAFT_VOCAB) -> torch.Tensor:
    """t2d: which target ids have a draft id."""
    mask = torch.zeros(VOCAB, dtype=torch.bool)
    mask[kept(size)] = True
    return mask


def _values(name: str, shape: tuple[int, ...], seed: str) -> torch.Tensor:
    """Random values of a tensor's own, so that it can be told from every other by value."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))) * 0.15
    return made + 1 if "norm" in name and len(shape) == 1 else made


def config_of(variant: Variant) -> dict[str, Any]:
    """The variant's config.json."""
    merged = dict(variant.whole) if variant.whole is not None else base_config(variant.base) | dict(variant.config)
    return {k: v for k, v in merged.items() if v is not GONE}


def tensors_of(variant: Variant, copy: int = 0) -> dict[str, torch.Tensor]:
    """The variant's tensors; ``copy`` gives other values under the same names (for a second file)."""
    shapes = base_shapes(variant.base, variant.layer, variant.states, base_config(variant.base) | dict(variant.config)) | dict(
        variant.tensors
    )
    seed = f"{variant.name}/{copy}"
    return {n: s if isinstance(s, torch.Tensor) else _values(n, tuple(s), seed) for n, s in shapes.items() if s is not GONE}


def write(variant: Variant, folder: Path, target: Path) -> None:
    """Write the drafter's folder; ``$TARGET`` anywhere in the config becomes the target's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "config.json").write_text(json.dumps(config_of(variant), indent=1).replace("$TARGET", str(target)))
    parts: dict[str, dict[str, torch.Tensor]] = {}
    places: dict[str, str] = {}
    for name, value in tensors_of(variant).items():
        for copy, file in enumerate(variant.files(name) if variant.files else ("model.safetensors",)):
            parts.setdefault(file, {})[name] = value if copy == 0 else tensors_of(variant, copy)[name]
            places.setdefault(name, file)
    for file, held in parts.items():
        if file.endswith(".bin"):
            torch.save(held, folder / file)
        else:
            save_file({k: v.contiguous() for k, v in held.items()}, folder / file, metadata={"format": "pt"})
    if variant.files and variant.index and any("-of-" in f for f in parts):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
