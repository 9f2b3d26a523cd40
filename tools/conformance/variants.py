"""Which wirings there are: a plain one, and one for every field in which drafters differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import (
    Attention,
    ConcatOrder,
    Feedback,
    LaterLayerNorm,
    Mla,
    NormBeforeFc,
    Owner,
    Rope,
    StepPositions,
    Wiring,
)

PLAIN: Final = Wiring(
    hidden_size=8,
    target_hidden_size=8,
    states=3,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=32,
    intermediate_size=8,
    draft_vocab_size=12,
    target_vocab_size=24,
    rms_norm_eps=1e-5,
    hidden_act="silu",
    rope=Rope(theta=10000.0, table_length=64),
    embedding=Owner.TARGET,
)
"""head_dim is not hidden_size / heads, and large enough for the attention kernels of engines (vLLM 0.32.0 on the CPU: 32 and more)."""
MLA: Final = Mla(q_lora_rank=12, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16)
LATENT: Final = replace(PLAIN, attention=Attention.MLA, mla=MLA, rope=Rope(table_length=64, interleaved=True))
LLAMA3: Final = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN: Final = {"factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 16}
LATENT_YARN: Final = {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}

_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "one-state": {"states": 1},
    "two-states": {"states": 2},
    "wider-target": {"target_hidden_size": 16, "embedding": Owner.OWN},
    "fc-skipped": {"states": 1, "fc_applied": False},
    "fc-bias": {"fc_bias": True},
    "input-norm": {"norms_before_fc": (NormBeforeFc.INPUT_NORM,)},
    "fc-norm": {"norms_before_fc": (NormBeforeFc.FC_NORM,)},
    "input-norm-then-fc-norm": {"norms_before_fc": (NormBeforeFc.INPUT_NORM, NormBeforeFc.FC_NORM)},
    "no-hidden-norm": {"hidden_norm": False},
    "double-norm": {"double_norm": True},
    "norm-before-residual": {"norm_before_residual": True},
    "feedback-post-norm": {"feedback": Feedback.POST_NORM},
    "no-final-norm": {"final_norm": False},
    "two-layers-input-layernorm": {"layers": 2},
    "two-layers-hidden-norm": {"layers": 2, "later_layer_norm": LaterLayerNorm.HIDDEN_NORM},
    "two-layers-no-norm": {"layers": 2, "later_layer_norm": LaterLayerNorm.NONE},
    "hidden-first": {"concat_order": ConcatOrder.HIDDEN_FIRST},
    "rope-theta": {"rope": Rope(theta=100.0, table_length=64)},
    "rope-interleaved": {"rope": Rope(table_length=64, interleaved=True)},
    "rope-partial": {"rope": Rope(table_length=64, rotary_dim=16)},
    "rope-linear": {"rope": Rope(type="linear", scaling={"factor": 2.0}, table_length=64)},
    "rope-dynamic": {"rope": Rope(type="dynamic", scaling={"factor": 4.0, "static": True}, table_length=64)},
    "rope-llama3": {"rope": Rope(type="llama3", scaling=dict(LLAMA3), table_length=128)},
    "rope-yarn": {"rope": Rope(type="yarn", scaling=dict(YARN), table_length=64)},
    "window": {"window": 3},
    "window-of-the-row": {"window": 3, "window_follows_steps": False},
    "positions-constant": {"step_positions": StepPositions.CONSTANT},
    "multi-head": {"kv_heads": 2},
    "qk-norm": {"qk_norm": True},
    "qkv-bias": {"qkv_bias": True},
    "o-bias": {"o_bias": True},
    "mlp-bias": {"mlp_bias": True},
    "norm-epsilon": {"rms_norm_eps": 0.1},
    "gelu": {"hidden_act": "gelu"},
    "attention-scale": {"attention_scale": 0.5},
    "logit-scale": {"logit_scale": 0.25},
    "d2t-absolute": {"vocab_map": VocabMap.ABSOLUTE},
    "full-vocabulary": {"vocab_map": VocabMap.IDENTITY, "draft_vocab_size": 24},
    "own-embedding": {"embedding": Owner.OWN},
    "targets-head": {"lm_head": Owner.TARGET, "vocab_map": VocabMap.IDENTITY, "draft_vocab_size": 24},
    "tied-to-own-embedding": {
        "embedding": Owner.OWN,
        "lm_head": Owner.TIED_TO_OWN,
        "vocab_map": VocabMap.IDENTITY,
        "draft_vocab_size": 24,
    },
    "tied-to-targets-embedding": {"lm_head": Owner.TIED_TO_TARGET, "vocab_map": VocabMap.IDENTITY, "draft_vocab_size": 24},
}

_LATENT_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "latent": {},
    "latent-plain-query": {"mla": replace(MLA, q_lora_rank=None)},
    "latent-yarn": {"rope": Rope(type="yarn", scaling=dict(LATENT_YARN), table_length=64, interleaved=True)},
}

VARIANTS: Final[Mapping[str, Wiring]] = {name: replace(PLAIN, **changes) for name, changes in _CHANGES.items()} | {
    name: replace(LATENT, **changes) for name, changes in _LATENT_CHANGES.items()
}
"""Name of a case to its wiring."""


def differs(name: str) -> tuple[str, ...]:
    """The fields in which a case differs from ``plain``."""
    return tuple(f.name for f in fields(Wiring) if getattr(VARIANTS[name], f.name) != getattr(PLAIN, f.name))
