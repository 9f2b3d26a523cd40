"""A wiring in JSON, in the words of the contract file; and the config.json that engines read it from, as far as they have keys."""

from __future__ import annotations

from dataclasses import asdict, fields
from enum import Enum
from typing import Any

from eagle3_contract.model.wiring import Attention, Feedback, Mla, NormBeforeFc, Owner, Rope, Wiring


def wiring_json(wiring: Wiring) -> dict[str, Any]:
    """Every field of the wiring, enums by their value."""
    return {name: _plain(value) for name, value in asdict(wiring).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def wiring_from(stated: dict[str, Any]) -> Wiring:
    """The inverse of ``wiring_json``. Raises TypeError for a field that there is not, ValueError for a word that there is not."""
    kinds = {f.name: type(f.default) for f in fields(Wiring) if isinstance(f.default, Enum)}
    values: dict[str, Any] = {name: kinds[name](value) if name in kinds else value for name, value in stated.items()}
    values["norms_before_fc"] = tuple(NormBeforeFc(n) for n in stated["norms_before_fc"])
    values["rope"] = Rope(**stated["rope"])
    values["mla"] = None if stated["mla"] is None else Mla(**stated["mla"])
    return Wiring(**values)


def config_json(w: Wiring) -> dict[str, Any]:
    """config.json with the keys that vLLM 0.32.0 and SGLang 0.5.23 read. What has no key anywhere is in case.json alone."""
    latent = w.attention is Attention.MLA
    config: dict[str, Any] = {
        "architectures": ["Eagle3DeepseekV2ForCausalLM" if latent else "LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_size": w.hidden_size,
        "target_hidden_size": w.target_hidden_size,
        "intermediate_size": w.intermediate_size,
        "num_hidden_layers": w.layers,
        "num_attention_heads": w.heads,
        "num_key_value_heads": w.kv_heads,
        "vocab_size": w.target_vocab_size,
        "draft_vocab_size": w.draft_vocab_size,
        "rms_norm_eps": w.rms_norm_eps,
        "hidden_act": w.hidden_act,
        "max_position_embeddings": w.rope.table_length,
        "rope_theta": w.rope.theta,
        "tie_word_embeddings": w.lm_head in (Owner.TIED_TO_OWN, Owner.TIED_TO_TARGET),
        "num_aux_hidden_states": w.states,
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": list(range(1, w.states + 1))},
    }
    if latent and w.mla is not None:
        config |= {name: value for name, value in asdict(w.mla).items() if name != "norm_eps"}
    else:
        config["head_dim"] = w.head_dim
    if w.rope.type != "default":
        scaling = {key: value for key, value in w.rope.scaling.items() if key != "static"}  # our word for what engines do
        config["rope_scaling"] = {"rope_type": w.rope.type, **scaling}
    if w.rope.rotary_dim is not None:
        config["partial_rotary_factor"] = w.rope.rotary_dim / w.head_dim
    if w.window is not None:
        config["sliding_window"] = w.window
    for key, on in (
        ("bias", w.fc_bias),
        ("norm_before_residual", w.norm_before_residual),
        ("norm_output", w.feedback is Feedback.POST_NORM),
        ("norm_before_fc", NormBeforeFc.INPUT_NORM in w.norms_before_fc),
        ("fc_norm", NormBeforeFc.FC_NORM in w.norms_before_fc),
        ("attention_bias", w.qkv_bias or w.o_bias),
        ("mlp_bias", w.mlp_bias),
    ):
        if on:
            config[key] = True
    if w.logit_scale != 1.0:
        config["logit_scale"] = w.logit_scale
    return config
