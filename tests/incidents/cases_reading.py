"""Engines' readings: the same files, other arithmetic."""

from __future__ import annotations

from typing import Any

from factory import Pair, Tensor, pair, tiny

from eagle3_contract.model.wiring import Feedback, LaterLayerNorm, NormBeforeFc
from incidents.case import Case, both, setting, without
from incidents.cases_files import tensor
from incidents.cases_recipe import target

W = "contract.wiring."
IDS = "config.eagle_config.eagle_aux_hidden_state_layer_ids"
SGLANG, VLLM_V1, VLLM_V2 = ("sglang==0.5.23",), ("vllm[v1]==0.32.0",), ("vllm[v2]==0.32.0",)
LLAMA = target(architectures=["LlamaForCausalLM"], max_position_embeddings=256)
GEMMA = target(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", max_position_embeddings=256)
KIMI = target(architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3", max_position_embeddings=256)


def on(engines: tuple[str, ...], **more: Any) -> dict[str, Any]:
    return {"engines": engines, "target": LLAMA} | more


def top_level() -> Pair:
    """Ids where vLLM looks, in its convention."""
    return pair(layout="flat", ids=(2, 4, 5))


def seed_on_kimi() -> Pair:
    made = pair(boundaries=(0, 3, 5), ids=(0, 3, 5))
    made.contract["target"]["model_type"] = "deepseek_v3"
    return made


def branch_of_gemma() -> Pair:
    """Trained on what SGLang's Gemma3 hands over."""
    made = pair()
    made.contract["target"]["model_type"] = "gemma3_text"
    made.contract["hidden_states"]["point"] = "branch_only"
    return made


def seed_for_vllm() -> Pair:
    return pair(boundaries=(0, 3, 5), ids=(0, 3, 5), layout="flat")


def speculators() -> Pair:
    wiring = tiny(norm_before_residual=True, norms_before_fc=(NormBeforeFc.INPUT_NORM,), feedback=Feedback.POST_NORM)
    return pair(wiring, layout="speculators", ids=(2, 4, 5), dialect="layers")


def two_layers_for_vllm() -> Pair:
    return pair(tiny(layers=2, later_layer_norm=LaterLayerNorm.INPUT_LAYERNORM), layout="flat", ids=(2, 4, 5), dialect="layers")


def two_layers_for_sglang(p: Pair) -> None:
    p.contract["wiring"]["later_layer_norm"] = "hidden_norm"


def one_state(p: Pair) -> None:
    """One captured state of the drafter's own width: SGLang skips fc."""
    p.contract["hidden_states"]["boundaries"] = [4]
    p.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [3]
    p.tensors["fc.weight"] = Tensor(p.tensors["fc.weight"].values[:, :32], "bfloat16")
    p.contract["tensors"]["fc.weight"]["shape"] = [32, 32]


def q_norm(p: Pair) -> None:
    """A norm that training applied and SGLang's Llama drafter does not have."""
    p.contract["wiring"]["qk_norm"] = True
    for name in ("q_norm", "k_norm"):
        p.tensors[f"midlayer.self_attn.{name}.weight"] = tensor((12,))
        p.contract["tensors"][f"layers.0.self_attn.{name}.weight"] = {
            "shape": [12], "dtype": "bfloat16", "stored": True, "used": "own", "content": "independent",
        }  # fmt: skip


def own_embedding(p: Pair) -> None:
    p.tensors["embed_tokens.weight"] = tensor((96, 32))
    p.contract["wiring"]["embedding"] = "own"
    p.contract["tensors"]["embed_tokens.weight"].update(stored=True, used="own", content="independent")


def windowed(p: Pair) -> None:
    p.contract["wiring"]["window"] = 16
    p.config["sliding_window"] = 16


def no_map(p: Pair) -> None:
    del p.tensors["d2t"], p.tensors["t2d"]


CASES = (
    Case(
        name="nested-ids-on-vllm-v1",
        rule="reading.boundaries",
        **on(VLLM_V1),
        base=top_level,
        change=both(
            without("config.eagle_aux_hidden_state_layer_ids"),
            setting("config.eagle_config", {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}),
        ),
        says=("[1, 3, 4]", "[2, 4, 5]", "vllm[v1]==0.32.0"),
    ),
    Case(
        name="nested-ids-on-vllm-v2",
        rule="reading.boundaries",
        **on(VLLM_V2),
        base=seed_for_vllm,
        change=both(
            without("config.eagle_aux_hidden_state_layer_ids"),
            setting("config.eagle_config", {"eagle_aux_hidden_state_layer_ids": [0, 3, 5]}),
        ),
        says=("[2, 4, 5]", "[0, 3, 5]", "by default"),
    ),
    Case(
        name="top-level-ids-on-sglang",
        rule="reading.boundaries",
        **on(SGLANG),
        base=lambda: pair(boundaries=(0, 3, 5), ids=(-1, 2, 4)),
        change=both(without(IDS), setting("config.eagle_aux_hidden_state_layer_ids", [0, 3, 5])),
        says=("[2, 4, 5]", "[0, 3, 5]"),
    ),
    Case(
        name="seed-on-a-deepseek-target",
        rule="reading.boundaries",
        engines=SGLANG,
        target=KIMI,
        base=seed_on_kimi,
        change=setting(IDS, [3, 5, 7]),
        says=("[3, 5, 7]", "[0, 3, 5]"),
    ),
    Case(
        name="seed-ids-on-a-llama-target",
        rule="reading.boundaries",
        **on(SGLANG),
        base=lambda: pair(boundaries=(0, 3, 5), ids=(-1, 2, 4)),
        change=setting(IDS, [0, 3, 5]),
        says=("[1, 4, 6]",),
    ),
    Case(
        name="config-class-that-nobody-knows",
        rule="reading.config-class",
        **on(VLLM_V1),
        base=top_level,
        change=setting("config.model_type", "cohere2"),
        exit=3,
        says=("cohere2", "window"),
    ),
    Case(
        name="window-of-the-config-class",
        rule="reading.window",
        **on(VLLM_V1),
        base=top_level,
        change=setting("config.model_type", "gpt_oss"),
        says=("128", "by default"),
    ),
    Case(
        name="half-a-head-by-the-config-class",
        rule="reading.rope-scaling",
        **on(SGLANG),
        change=setting("config.model_type", "glm4"),
        says=("rope.rotary_dim", "6"),
    ),
    *(
        Case(
            name=f"share-of-a-head-under-{key}",
            rule="reading.rope-scaling",
            **on(VLLM_V1),
            base=top_level,
            change=setting(f"config.{key}", 0.5),
            says=("rope.rotary_dim 6", "12"),
        )
        for key in ("rotary_pct", "rotary_emb_fraction")
    ),
    Case(
        name="rotation-of-pairs-by-a-key",
        rule="reading.rope-scaling",
        **on(SGLANG),
        change=setting("config.rope_is_neox_style", False),
        says=("rope.interleaved true", "rope_is_neox_style"),
    ),
    Case(
        name="attention-to-later-tokens",
        rule="reading.attention",
        **on(VLLM_V1),
        base=top_level,
        change=setting("config.is_causal", False),
        says=("attention.causal false", "is_causal"),
    ),
    Case(
        name="plain-weights-under-a-quantisation-config",
        rule="reading.quantization",
        **on(VLLM_V1),
        base=top_level,
        change=setting("config.quantization_config", {"quant_method": "fp8", "activation_scheme": "dynamic"}),
        says=("fp8", "quantization_config.quant_method", "bfloat16"),
    ),
    Case(name="ids-count-from-another-key", rule="reading.fc-count", **on(SGLANG), change=setting("config.num_aux_hidden_states", 4)),
    Case(name="fc-skipped-on-equal-width", rule="reading.fc-applied", **on(SGLANG), change=one_state, says=("false",)),
    Case(
        name="branch-without-residual",
        rule="reading.point",
        engines=SGLANG,
        target=GEMMA,
        base=branch_of_gemma,
        change=setting("contract.hidden_states.point", "residual"),
        says=("branch_only", "residual"),
    ),
    Case(
        name="constant-positions-of-training",
        rule="reading.step-positions",
        **on(SGLANG),
        change=setting("contract.alignment.step_positions", "constant"),
        says=("advance", "1.67 -> 1.62"),
    ),
    Case(
        name="drafter-run-in-float16",
        rule="reading.dtype",
        **on(SGLANG),
        change=setting("config.torch_dtype", "float16"),
        says=("float16", "bfloat16", "0.06"),
    ),
    Case(name="fc-bias-of-training", rule="reading.fc-bias", **on(SGLANG), change=setting(W + "fc_bias", True)),
    Case(
        name="input-norm-flag-missing",
        rule="reading.norms-before-fc",
        **on(VLLM_V1),
        base=speculators,
        change=without("config.norm_before_fc"),
        says=("[]", "[input_norm]"),
    ),
    Case(
        name="normed-residual-on-sglang",
        rule="reading.norm-before-residual",
        **on(SGLANG),
        change=both(setting("config.norm_before_residual", True), setting(W + "norm_before_residual", True)),
        says=("always", "true"),
    ),
    Case(
        name="residual-default-of-vllm",
        rule="reading.norm-before-residual",
        **on(VLLM_V1),
        base=lambda: pair(layout="speculators", ids=(2, 4, 5), dialect="layers"),
        change=without("config.norm_before_residual"),
    ),
    Case(
        name="post-norm-feedback-lost",
        rule="reading.feedback",
        **on(VLLM_V1),
        base=speculators,
        change=without("config.norm_output"),
        says=("pre_norm", "post_norm"),
    ),
    Case(name="modelopt-double-norm", rule="reading.double-norm", **on(SGLANG), change=setting(W + "double_norm", True)),
    Case(name="two-layers-on-vllm", rule="reading.later-layer-norm", **on(VLLM_V1), base=two_layers_for_vllm, change=two_layers_for_sglang),
    Case(name="no-final-norm-in-training", rule="reading.final-norm", **on(SGLANG), change=setting(W + "final_norm", False)),
    Case(name="map-lost", rule="reading.vocab-present", **on(SGLANG), change=no_map),
    Case(
        name="map-of-target-ids",
        rule="reading.vocab-map",
        **on(SGLANG),
        change=setting("contract.vocab.map", "absolute"),
        says=("offset", "absolute"),
    ),
    Case(name="draft-size", rule="reading.draft-size", **on(SGLANG), change=setting("contract.vocab.draft_size", 32)),
    Case(name="own-embedding-on-sglang", rule="reading.embedding", **on(SGLANG), change=own_embedding, says=("target", "own")),
    Case(name="head-of-the-target", rule="reading.lm-head", **on(SGLANG), change=setting("config.draft_vocab_size", None)),
    Case(
        name="theta-of-the-default",
        rule="reading.rope-theta",
        **on(SGLANG),
        change=setting(
            W + "rope", {"type": "default", "theta": 500000.0, "scaling": {}, "table_length": 256, "rotary_dim": 12, "interleaved": False}
        ),
    ),
    Case(
        name="yarn-of-modelopt",
        rule="reading.rope-type",
        **on(SGLANG),
        change=setting("config.rope_scaling", {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}),
    ),
    Case(
        name="yarn-parameters",
        rule="reading.rope-scaling",
        **on(SGLANG),
        change=setting("config.rope_scaling", {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}),
    ),
    Case(
        name="table-shorter-than-training",
        rule="reading.table-length",
        **on(SGLANG),
        change=setting(
            W + "rope", {"type": "default", "theta": 10000.0, "scaling": {}, "table_length": 512, "rotary_dim": 12, "interleaved": False}
        ),
    ),
    Case(name="window-on-sglang", rule="reading.window", **on(SGLANG), change=windowed, says=("null", "16")),
    Case(name="layers-of-the-config", rule="reading.layers", **on(SGLANG), change=setting("config.num_hidden_layers", 2)),
    Case(name="heads-of-the-config", rule="reading.sizes", **on(SGLANG), change=setting("config.num_attention_heads", 2), says=("heads",)),
    Case(
        name="epsilon-of-the-config",
        rule="reading.numerics",
        **on(SGLANG),
        change=setting("config.rms_norm_eps", 1e-6),
        says=("rms_norm_eps",),
    ),
    Case(name="q-norms-on-sglang", rule="reading.attention", **on(SGLANG), change=q_norm, says=("qk_norm",)),
    Case(name="q-norms-dropped-by-sglang", rule="reading.tensors", **on(SGLANG), change=q_norm, says=("q_norm", "dropped")),
    Case(
        name="fc-missing-for-sglang",
        rule="reading.tensors",
        **on(SGLANG),
        change=lambda p: p.tensors.pop("fc.weight"),
        says=("fc.weight", "missing"),
    ),
    Case(
        name="architecture-that-sglang-does-not-know",
        rule="reading.outcome",
        **on(SGLANG),
        change=both(setting("config.architectures", ["Eagle3LlamaForCausalLM"]), setting(W + "architecture", "Eagle3LlamaForCausalLM")),
        says=("does not load it",),
    ),
    Case(
        name="states-paired-with-their-own-token",
        rule="reading.token-shift",
        **on(SGLANG),
        change=setting("contract.alignment.token_shift", 0),
    ),
    Case(
        name="engine-that-nobody-knows",
        rule="engines.unknown",
        exit=2,
        change=lambda _: None,
        target=LLAMA,
        broken_engines=("sglang==9.9.9",),
    ),
)
