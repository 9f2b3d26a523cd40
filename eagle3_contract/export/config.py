"""A contract as a flat config.json: what training did, under every key that some engine reads for it.

Which ids, which architecture and a few other keys is decided by trying (``candidates``); everything else has one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contract.findings import Json
from eagle3_contract.check.context import CheckContext
from eagle3_contract.model.wiring import Feedback, NormBeforeFc
from eagle3_contract.readings.draft_config import INERT_KEYS

IDS: Final = "eagle_aux_hidden_state_layer_ids"
KEPT: Final = (INERT_KEYS - {"architectures", "model_type", "dtype", "torch_dtype", "_name_or_path"}) | {"layer_types", "max_window_layers"}
"""Keys of the drafter's own config that are carried over; they decide no number, or only repeat one."""
_SAME: Final[Mapping[str, str]] = {
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "rms_norm_eps": "rms_norm_eps",
    "hidden_act": "hidden_act",
    "mlp_bias": "mlp_bias",
}


class Unstated(list[str]):
    """Statements that were needed and unknown, each with its reason."""


def base_config(ctx: CheckContext) -> tuple[dict[str, Json], Unstated]:
    """Everything but ids, architecture and head; and what could not be written because the contract does not know it."""
    missing = Unstated()

    def stated(*path: str) -> Any:
        known = ctx.stated(*path)
        if not known.known:
            missing.append(f"{'.'.join(path)} ({known.reason})")
        return known.value

    own = _own(ctx)
    config: dict[str, Json] = {k: v for k, v in own.items() if k in KEPT and not k.startswith("speculators")}
    latent = stated("wiring", "attention") == "mla"
    config["model_type"] = _model_type(own, latent)
    for key, name in _SAME.items():
        config[key] = stated("wiring", name)
    if latent and ctx.contract.wiring.mla is not None:
        mla = ctx.contract.wiring.mla
        config |= {n: getattr(mla, n) for n in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    else:
        config["head_dim"] = stated("wiring", "head_dim")
    config["attention_bias"] = bool(stated("wiring", "qkv_bias")) or bool(stated("wiring", "o_bias"))
    config |= _rope(ctx, stated)
    config |= _vocabulary(own, stated)
    config |= _switches(ctx, stated)
    dtype = next((ctx.value("tensors", n, "dtype") for n in ("fc.weight", *ctx.contract.tensors) if n in ctx.contract.tensors), None)
    if dtype is not None:
        config["torch_dtype"] = dtype
    return {k: v for k, v in config.items() if v is not None or k in ("q_lora_rank",)}, missing


def _own(ctx: CheckContext) -> Mapping[str, Json]:
    """The drafter's own config, a speculators one unfolded."""
    raw = ctx.drafter.config or {}
    inner = raw.get("transformer_layer_config")
    return {**(inner if isinstance(inner, Mapping) else {}), **raw} if "speculators_model_type" in raw else raw


def _model_type(own: Mapping[str, Json], latent: bool) -> str:
    name = own.get("model_type")
    if latent:
        return name if name in ("kimi_k2", "deepseek_v3") else "deepseek_v3"
    return "qwen3" if name == "qwen3" else "llama"


def _rope(ctx: CheckContext, stated: Any) -> dict[str, Json]:
    kind, theta = stated("wiring", "rope", "type"), stated("wiring", "rope", "theta")
    config: dict[str, Json] = {"rope_theta": theta, "max_position_embeddings": stated("wiring", "rope", "table_length")}
    if kind not in (None, "default"):
        config["rope_scaling"] = {"rope_type": kind, **ctx.contract.wiring.rope.scaling}
    rotary, head = ctx.value("wiring", "rope", "rotary_dim"), ctx.value("wiring", "head_dim")
    if ctx.contract.wiring.mla is None and rotary is not None and head is not None and rotary != head:
        config["partial_rotary_factor"] = rotary / head
    return config


def _vocabulary(own: Mapping[str, Json], stated: Any) -> dict[str, Json]:
    sizes = (stated("vocab", "target_padded_size"), stated("vocab", "target_size"))
    size = own.get("vocab_size") if own.get("vocab_size") in sizes else sizes[0]
    head = stated("wiring", "lm_head")
    return {
        "vocab_size": size,
        "draft_vocab_size": stated("vocab", "draft_size"),
        "tie_word_embeddings": head in ("tied_to_own", "tied_to_target"),
    }


def _switches(ctx: CheckContext, stated: Any) -> dict[str, Json]:
    """EAGLE's own switches, each under the key (or both keys) where engines look; those that are off are left out where that is read
    as off by everyone."""
    norms, target = stated("wiring", "norms_before_fc") or [], stated("target", "hidden_size")
    config: dict[str, Json] = {"norm_before_residual": stated("wiring", "norm_before_residual")}
    if NormBeforeFc.INPUT_NORM in norms:
        config["norm_before_fc"] = True
    if NormBeforeFc.FC_NORM in norms:
        config["fc_norm"] = True
    if stated("wiring", "feedback") == Feedback.POST_NORM:
        config["norm_output"] = True
    if stated("wiring", "fc_bias"):
        config["bias"] = True
    if target != ctx.value("wiring", "hidden_size"):
        config["target_hidden_size"] = target
    if (scale := stated("wiring", "logit_scale")) not in (None, 1.0):
        config["logit_scale"] = scale
    if (window := stated("wiring", "window")) is not None:
        config |= {"sliding_window": window, "use_sliding_window": True}
    return config
