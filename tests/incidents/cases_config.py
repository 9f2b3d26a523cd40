"""config.json, rope, flags, dtypes, weights and what the contract leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
from factory import MLA, Pair, Tensor, pair, tiny

from eagle3_contract.check.context import Integrity
from eagle3_contract.model.wiring import Attention, Feedback, LaterLayerNorm, NormBeforeFc, Owner, Rope, StepPositions
from incidents.case import Case, both, setting, without

W = "contract.wiring."
C = "config."
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}


def llama3() -> Pair:
    return pair(tiny(rope=Rope(type="llama3", theta=500000.0, scaling=dict(LLAMA3), table_length=256, rotary_dim=12)))


def speculators() -> Pair:
    """A speculators drafter with everything that 0.9.0 switches on by default."""
    wiring = tiny(
        norm_before_residual=True,
        norms_before_fc=(NormBeforeFc.INPUT_NORM,),
        feedback=Feedback.POST_NORM,
        window=16,
        window_follows_steps=False,
    )
    return pair(wiring, layout="speculators", ids=(2, 4, 5), dialect="layers")


def latent() -> Pair:
    wiring = tiny(
        attention=Attention.MLA, mla=MLA, rope=Rope(type="yarn", theta=50000.0, scaling={"factor": 64.0}, table_length=256, rotary_dim=4)
    )
    return pair(wiring, dialect="layers")


def tied() -> Pair:
    return pair(tiny(embedding=Owner.OWN, lm_head=Owner.TIED_TO_OWN, draft_vocab_size=96))


def wider_target() -> Pair:
    return pair(tiny(target_hidden_size=40))


def fill(name: str, value: float) -> Any:
    def change(p: Pair) -> None:
        p.tensors[name].values = np.full_like(p.tensors[name].values, value)

    return change


def one_nan(p: Pair) -> None:
    p.tensors["fc.weight"].values[3, 5] = np.nan


def random_head(p: Pair) -> None:
    values = np.random.default_rng(5).standard_normal((24, 32)).astype(np.float32) * 0.02
    p.tensors["lm_head.weight"] = Tensor(values, "bfloat16")


def modelopt_yarn(p: Pair) -> None:
    p.config["rope_scaling"] = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}


def small() -> Pair:
    return pair(dtype="float32")


def large() -> Pair:
    """A head of 6 MiB: sampled, not read whole, below ``digests``."""
    return pair(tiny(draft_vocab_size=49152, target_vocab_size=50000), dtype="float32")


SIZES = (
    ("hidden-size", "hidden_size", 64),
    ("intermediate-size", "intermediate_size", 64),
    ("heads", "num_attention_heads", 2),
    ("kv-heads", "num_key_value_heads", 4),
    ("head-dim", "head_dim", 8),
    ("vocab-size", "vocab_size", 128),
    ("draft-vocab-size", "draft_vocab_size", 32),
    ("rms-norm-eps", "rms_norm_eps", 1e-6),
    ("hidden-act", "hidden_act", "gelu"),
    ("mlp-bias", "mlp_bias", True),
    ("attention-bias", "attention_bias", True),
    ("fc-bias", "bias", True),
    ("logit-scale", "logit_scale", 0.5),
    ("tie-word-embeddings", "tie_word_embeddings", True),
    ("rope-theta", "rope_theta", 1000000.0),
    ("table-length", "max_position_embeddings", 128),
    ("rotary-dim", "partial_rotary_factor", 0.5),
    ("norm-before-residual", "norm_before_residual", True),
    ("norm-before-fc", "norm_before_fc", True),
    ("fc-norm", "fc_norm", True),
    ("norm-output", "norm_output", True),
)

CASES = (
    *(Case(name=f"config-{rule}", rule=f"config.{rule}", change=setting(C + key, value)) for rule, key, value in SIZES),
    Case(name="config-dtype", rule="config.dtype", change=setting("config.torch_dtype", "float32"), exit=0, warns=True, says=("float32",)),
    Case(name="head-dim-missing", rule="config.head-dim", change=without("config.head_dim"), says=("fall back", "8", "12")),
    Case(name="hidden-size-missing", rule="config.hidden-size", change=without("config.hidden_size"), says=("no key",)),
    Case(name="draft-vocab-size-missing", rule="config.draft-vocab-size", change=without("config.draft_vocab_size")),
    Case(name="draft-vocab-size-null", rule="config.draft-vocab-size", change=setting("config.draft_vocab_size", None)),
    Case(name="vocab-size-missing", rule="config.vocab-size", change=without("config.vocab_size")),
    Case(name="theta-missing", rule="config.rope-theta", base=llama3, change=without("config.rope_theta"), says=("10000", "500000")),
    Case(
        name="target-width-missing",
        rule="config.target-hidden-size",
        base=wider_target,
        change=without("config.target_hidden_size"),
        says=("32", "40"),
    ),
    Case(name="latent-sizes", rule="config.mla-sizes", base=latent, change=setting("config.kv_lora_rank", 16)),
    Case(name="latent-rank-missing", rule="config.mla-sizes", base=latent, change=without("config.q_lora_rank")),
    Case(name="heads-as-bool", rule="config.heads", change=setting("config.num_attention_heads", True)),
    Case(
        name="theta-twice",
        rule="config.one-answer",
        change=setting("config.rope_parameters", {"rope_theta": 500000.0}),
        says=("rope_parameters.rope_theta",),
    ),
    Case(name="dtype-twice", rule="config.one-answer", change=setting("config.dtype", "float16")),
    Case(
        name="norm-before-fc-twice",
        rule="config.one-answer",
        change=both(setting("config.norm_before_fc", False), setting("config.eagle_config.norm_before_fc", True)),
    ),
    Case(name="modelopt-yarn", rule="config.rope-type", change=modelopt_yarn, says=("ModelOpt", "plain rope")),
    Case(name="scaling-lost", rule="config.rope-type", base=llama3, change=without("config.rope_scaling")),
    Case(
        name="scaling-factor",
        rule="config.rope-scaling",
        base=llama3,
        change=setting("config.rope_scaling.factor", 4.0),
        says=("factor", "8"),
    ),
    Case(
        name="scaling-parameter-lost",
        rule="config.rope-scaling",
        base=llama3,
        change=without("config.rope_scaling.low_freq_factor"),
        says=("absent",),
    ),
    Case(
        name="config-sliding-window",
        rule="config.sliding-window",
        change=both(setting("config.sliding_window", 128), setting("config.layer_types", ["sliding_attention"])),
        says=("128", "null"),
    ),
    Case(
        name="window-of-the-class-in-the-config",
        rule="config.sliding-window",
        change=both(setting("config.model_type", "gpt_oss"), setting("config.sliding_window", 128)),
        says=("128", "null"),
    ),
    Case(
        name="window-lost", rule="config.sliding-window", base=speculators, change=without("config.transformer_layer_config.sliding_window")
    ),
    Case(
        name="window-of-full-layers",
        rule="config.sliding-window",
        base=speculators,
        change=setting("config.transformer_layer_config.layer_types", ["full_attention"]),
    ),
    Case(
        name="residual-flag-of-the-other-reading",
        rule="config.norm-before-residual",
        base=speculators,
        change=setting("config.norm_before_residual", False),
        says=("raw hidden state", "normed hidden state"),
    ),
    Case(
        name="residual-default-of-speculators",
        rule="config.norm-before-residual",
        base=lambda: pair(layout="speculators", ids=(2, 4, 5), dialect="layers"),
        change=without("config.norm_before_residual"),
        says=("absent", "true"),
    ),
    Case(
        name="specforge-norm-output",
        rule="config.norm-output",
        change=setting("config.norm_output", True),
        says=("SpecForge", "post_norm", "Step 0"),
    ),
    Case(name="norm-output-lost", rule="config.norm-output", base=speculators, change=without("config.norm_output")),
    Case(name="input-norm-flag-lost", rule="config.norm-before-fc", base=speculators, change=without("config.norm_before_fc")),
    Case(name="norm-before-residual-in-contract", rule="config.norm-before-residual", change=setting(W + "norm_before_residual", True)),
    Case(name="feedback-in-contract", rule="config.norm-output", change=setting(W + "feedback", "post_norm")),
    Case(name="last-layernorm", rule="config.last-layernorm", change=setting("config.eagle_config.use_last_layernorm", False)),
    Case(
        name="misspelt-ids-key",
        rule="config.unread-key",
        change=setting("config.eagle_config.aux_hidden_state_layer_ids", [3, 31, 59]),
        exit=0,
    ),
    Case(name="misspelt-switch", rule="config.unread-key", change=setting("config.use_aux_hidden_states", True), exit=0),
    Case(name="one-nan", rule="weights.finite", change=one_nan, integrity=Integrity.VALUES, says=("fc.weight",)),
    Case(
        name="one-nan-in-a-row-that-no-sample-reads",
        rule="weights.finite",
        base=large,
        change=lambda p: p.tensors["lm_head.weight"].values.__setitem__((1, 5), np.nan),
        integrity=Integrity.DIGESTS,
        says=("1 values of lm_head.weight",),
    ),
    Case(name="infinite-norm", rule="weights.finite", change=fill("norm.weight", np.inf), integrity=Integrity.VALUES),
    Case(name="zero-fc", rule="weights.alive", change=fill("fc.weight", 0.0), integrity=Integrity.VALUES, exit=0),
    Case(name="zero-fc-of-which-every-byte-was-read", rule="weights.dead", change=fill("fc.weight", 0.0), integrity=Integrity.DIGESTS),
    Case(name="constant-head", rule="weights.dead", change=fill("lm_head.weight", 0.5), integrity=Integrity.DIGESTS),
    Case(name="norm-of-ones-in-digests", rule="weights.alive", change=fill("norm.weight", 1.0), integrity=Integrity.DIGESTS, exit=0),
    Case(name="norm-of-ones", rule="weights.alive", change=fill("norm.weight", 1.0), integrity=Integrity.VALUES, exit=0),
    Case(name="random-head", rule="weights.trained", change=random_head, integrity=Integrity.VALUES, exit=0),
    Case(
        name="uninitialised-memory",
        rule="weights.magnitude",
        base=small,
        change=lambda p: setattr(p.tensors["fc.weight"], "values", p.tensors["fc.weight"].values * np.float32(1e-40)),
        integrity=Integrity.VALUES,
    ),
    Case(
        name="arithmetic-unknown",
        rule="contract.arithmetic-known",
        change=setting(W + "double_norm", {"unknown": "lost"}),
        exit=3,
        says=("lost",),
    ),
    Case(
        name="statement-unknown",
        rule="contract.unknown-statements",
        change=setting("contract.target.revision", {"unknown": "main"}),
        exit=0,
    ),
    Case(
        name="statement-assumed",
        rule="contract.assumed-statements",
        change=setting(W + "double_norm", {"value": False, "evidence": "assumed"}),
        exit=0,
    ),
    Case(name="double-norm", rule="wiring.servable", change=setting(W + "double_norm", True), exit=0, says=("twice",)),
    Case(name="no-final-norm", rule="wiring.servable", change=lambda p: no_final_norm(p), exit=0, says=("no norm before the head",)),
    Case(
        name="window-that-stays-at-the-row",
        rule="wiring.servable",
        base=lambda: pair(tiny(window=8)),
        change=setting(W + "window_follows_steps", False),
        exit=0,
        says=("stays",),
    ),
    Case(
        name="constant-positions",
        rule="wiring.servable",
        change=setting("contract.alignment.step_positions", StepPositions.CONSTANT.value),
        exit=0,
    ),
    Case(
        name="sixteen-draft-tokens-from-one-step",
        rule="serving.draft-tokens",
        change=both(setting("contract.serving.steps", 1), setting("contract.serving.draft_tokens", 16)),
        says=("engines verify 2",),
    ),
    Case(
        name="order-that-engines-sort",
        rule="wiring.servable",
        change=both(
            setting("contract.hidden_states.boundaries", [5, 2, 4]), without("config.eagle_config.eagle_aux_hidden_state_layer_ids")
        ),
        exit=0,
        says=("ascending",),
    ),
    Case(
        name="two-layers-with-the-norm-of-sglang",
        rule="wiring.norms",
        base=lambda: pair(tiny(layers=2, later_layer_norm=LaterLayerNorm.HIDDEN_NORM), dialect="layers"),
        change=setting(W + "later_layer_norm", "input_layernorm"),
    ),
    Case(name="tied-head-untied", rule="config.tie-word-embeddings", base=tied, change=setting("config.tie_word_embeddings", False)),
)


def no_final_norm(p: Pair) -> None:
    """SpecForge's norm_output false: the norm is stored and not used."""
    p.contract["wiring"]["final_norm"] = False
    p.contract["tensors"]["norm.weight"]["used"] = "not_used"
    p.config["norm_output"] = False
