"""Public reports that no other file here covers, each by its own head, engine and release (see corpus.yaml)."""

from __future__ import annotations

from typing import Any

from factory import MLA, Pair, Tensor, pair, tiny

from eagle3_contract.model.wiring import Attention, Feedback, NormBeforeFc, Rope
from incidents.case import Case, both, setting, without
from incidents.cases_files import drop, tensor
from incidents.cases_reading import KIMI, LLAMA, SGLANG, VLLM_V1
from incidents.cases_recipe import target

IDS = "config.eagle_config.eagle_aux_hidden_state_layer_ids"
KEY = "eagle_aux_hidden_state_layer_ids"


def served(architecture: str, layers: int = 8, **more: Any) -> Any:
    return target(architectures=[architecture], num_hidden_layers=layers, max_position_embeddings=256, **more)


def named(made: Pair, model_type: str) -> Pair:
    """The same pair for another family."""
    made.contract["target"]["model_type"] = model_type
    return made


def llama_70b() -> Pair:
    """nvidia/Llama-3.3-70B-Instruct-Eagle3 as trained: states that are not the default ones."""
    return pair(boundaries=(1, 30, 60), ids=(1, 30, 60), layout="flat", target_layers=80)


def kimi_mla() -> Pair:
    """lightseekorg/kimi-k2.5-eagle3-mla: ids are inputs of layers, the first one 2."""
    rope = Rope(theta=10000.0, table_length=256, rotary_dim=4, interleaved=True)
    wiring = tiny(attention=Attention.MLA, mla=MLA, head_dim=12, kv_heads=4, rope=rope)
    made = pair(wiring, boundaries=(2, 30, 58), ids=(2, 30, 58), dialect="layers", target_layers=61)
    made.config |= {"model_type": "deepseek_v3"}
    return named(made, "deepseek_v3")


def gpt_oss_v3() -> Pair:
    """nvidia/gpt-oss-120b-Eagle3-v3: boundaries, the last one N."""
    return named(pair(boundaries=(24, 30, 36), ids=(24, 30, 36), target_layers=36), "gpt_oss")


def sixteen() -> Pair:
    return pair(boundaries=(2, 8, 13), ids=(1, 7, 12), target_layers=16)


def by_top_level() -> Pair:
    return pair(boundaries=(1, 3, 6), ids=(1, 3, 6), layout="flat")


def final_state(layout: str = "nested") -> Pair:
    """nvidia/gpt-oss-120b-Eagle3-v2: the normed last state alone, without fc."""
    made = pair(tiny(fc_applied=False), boundaries=("final_norm",), ids=None, layout=layout)
    made.config["eagle_config"] = {"use_aux_hidden_state": False}
    return made


def modern(layout: str = "flat") -> Pair:
    """A norm per state and a normed feedback (EAGLE-3.1)."""
    return pair(tiny(norms_before_fc=(NormBeforeFc.FC_NORM,), feedback=Feedback.POST_NORM), layout=layout, ids=(2, 4, 5), dialect="layers")


def normed_concatenation() -> Pair:
    return pair(tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM,)), layout="speculators", ids=(2, 4, 5), dialect="layers")


def theta_in_parameters() -> Pair:
    """transformers 5 writes rope_theta into rope_parameters only."""
    made = pair(tiny(rope=Rope(theta=5e6, table_length=256, rotary_dim=12)))
    del made.config["rope_theta"]
    made.config["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e6}
    return made


def per_attention_type(p: Pair) -> None:
    """speculators#649: rope parameters per kind of attention, as transformers 5 nests them for some targets."""
    del p.config["rope_theta"]
    p.config["rope_parameters"] = {"full_attention": {"rope_type": "default", "rope_theta": 5e6}}


def flat_default() -> Pair:
    return pair(layout="flat", ids=(2, 4, 5))


def on_vision() -> Pair:
    made = named(pair(), "qwen3_vl")
    made.contract["training"]["data"]["modality"] = "vision"
    made.contract["hidden_states"]["point"] = "after_injected_vision"
    return made


def yuhuili() -> Pair:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: no ids, and the architecture string of the target."""
    made = pair(ids=None, layout="flat")
    made.config["architectures"] = ["LlamaForCausalLM"]
    made.contract["wiring"]["architecture"] = "LlamaForCausalLM"
    return made


def every_state(p: Pair) -> None:
    """All hidden states instead of three."""
    p.tensors["fc.weight"] = tensor((32, 9 * 32))


def plain_decoder(p: Pair) -> None:
    """Loaded by the class of a plain decoder, whose attention is half as wide."""
    p.config["architectures"] = ["Qwen3ForCausalLM"]


def q_proj_only(p: Pair) -> None:
    p.tensors["midlayer.self_attn.q_proj.weight"] = Tensor(p.tensors["midlayer.self_attn.q_proj.weight"].values[:32], "bfloat16")


CASES = (
    Case(
        name="last-state-one-layer-early",
        rule="training.last-state",
        change=setting("contract.training.target_state.boundary", 7),
        exit=0,
        warns=True,
        says=("boundary 7", "8 layers"),
    ),
    Case(
        name="head-without-ids-on-vllm",
        rule="reading.boundaries",
        base=llama_70b,
        engines=VLLM_V1,
        target=served("LlamaForCausalLM", 80),
        change=without(f"config.{KEY}"),
        says=("[2, 40, 77]", "by default", "1.036"),
    ),
    Case(
        name="deepseek-rule-of-another-release",
        rule="reading.boundaries",
        base=kimi_mla,
        engines=("sglang==0.5.13",),
        broken_engines=("sglang==0.5.12",),
        target=served("DeepseekV3ForCausalLM", 61, model_type="deepseek_v3"),
        says=("[3, 31, 59]", "sglang==0.5.12"),
    ),
    Case(
        name="last-layer-that-never-comes",
        rule="reading.outcome",
        base=gpt_oss_v3,
        engines=SGLANG,
        broken_engines=("sglang==0.5.16",),
        target=served("GptOssForCausalLM", 36, model_type="gpt_oss"),
        says=("stops at the first request", "sglang==0.5.16"),
    ),
    Case(
        name="ids-that-a-release-does-not-read",
        rule="reading.boundaries",
        base=by_top_level,
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.10.1",),
        target=LLAMA,
        says=("[2, 4, 5]", "vllm[v1]==0.10.1"),
    ),
    Case(
        name="middle-id-off-by-one",
        rule="recipe.config-ids",
        base=sixteen,
        target=served("LlamaForCausalLM", 16),
        change=setting(IDS, [1, 8, 12]),
        says=("[2, 9, 13]", "[2, 8, 13]"),
    ),
    Case(
        name="first-three-hidden-states",
        rule="reading.boundaries",
        engines=SGLANG,
        target=LLAMA,
        change=setting("contract.hidden_states.boundaries", [0, 1, 2]),
        says=("[0, 1, 2]",),
    ),
    Case(name="every-hidden-state", rule="wiring.fc-width", change=every_state, says=("288",)),
    Case(
        name="target-too-shallow-for-the-defaults",
        rule="reading.outcome",
        base=lambda: pair(ids=None, layout="flat"),
        engines=SGLANG,
        target=LLAMA,
        broken_target=served("LlamaForCausalLM", 6),
        says=("at the first request",),
    ),
    Case(
        name="fixed-layers-of-llama-cpp",
        rule="reading.boundaries",
        base=by_top_level,
        engines=("llama.cpp==2026.8.31",),
        broken_engines=("llama.cpp==2026.6.1",),
        target=LLAMA,
        twin=3,
        says=("[2, 4, 5]",),
    ),
    Case(
        name="vision-features-before-or-after",
        rule="reading.point",
        base=on_vision,
        engines=SGLANG,
        target=served("Qwen3VLForConditionalGeneration", model_type="qwen3_vl"),
        change=setting("contract.hidden_states.point", "before_injected_vision"),
        says=("before_injected_vision",),
    ),
    Case(
        name="no-eagle-config-at-all",
        rule="reading.boundaries",
        base=lambda: pair(boundaries=(1, 3, 6), ids=(0, 2, 5)),
        engines=SGLANG,
        target=LLAMA,
        change=without("config.eagle_config"),
        says=("[2, 4, 5]", "by default"),
    ),
    Case(
        name="aux-states-although-switched-off",
        rule="reading.boundaries",
        base=final_state,
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.11.1",),
        target=LLAMA,
        says=("[2, 4, 5]", "final_norm"),
    ),
    Case(
        name="one-stream-on-an-old-sglang",
        rule="reading.boundaries",
        base=final_state,
        engines=SGLANG,
        broken_engines=("sglang==0.5.7",),
        target=LLAMA,
        says=("sglang==0.5.7", "[2, 4, 5]", "final_norm"),
    ),
    Case(
        name="post-norm-before-it-was-read",
        rule="reading.feedback",
        base=modern,
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.21.0",),
        target=LLAMA,
        says=("pre_norm", "post_norm", "not implemented before 0.22.0"),
    ),
    Case(
        name="flag-of-a-speculators-config-not-passed-on",
        rule="reading.norms-before-fc",
        base=normed_concatenation,
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.18.0",),
        target=LLAMA,
        says=("[]", "[input_norm]"),
    ),
    Case(
        name="norm-before-fc-that-atom-lacks",
        rule="reading.norms-before-fc",
        engines=("atom",),
        target=LLAMA,
        twin=3,
        base=lambda: pair(tiny(norms_before_fc=(NormBeforeFc.FC_NORM,), draft_vocab_size=96), dialect="layers", ids=(2, 4, 5)),
        change=both(
            setting("contract.wiring.norms_before_fc", ["input_norm"]), without("config.fc_norm"), setting("config.norm_before_fc", True)
        ),
        says=("[]", "[input_norm]"),
    ),
    Case(
        name="head-missing-for-sglang",
        rule="reading.tensors",
        engines=SGLANG,
        target=LLAMA,
        change=drop("lm_head.weight"),
        says=("lm_head",),
    ),
    Case(
        name="broken-map-of-vllm-0.9.0",
        rule="reading.vocab-map",
        base=yuhuili,
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.9.0",),
        target=LLAMA,
        says=("identity", "offset"),
    ),
    Case(name="map-in-a-side-file", rule="reading.vocab-present", base=flat_default, engines=VLLM_V1, target=LLAMA, change=drop("d2t")),
    Case(
        name="tie-that-drops-the-head",
        rule="reading.lm-head",
        engines=SGLANG,
        target=LLAMA,
        change=setting("config.tie_word_embeddings", True),
        says=("tied_to_target", "own"),
    ),
    Case(
        name="release-before-eagle-3",
        rule="engines.unknown",
        target=LLAMA,
        broken_engines=("vllm==0.8.5",),
        exit=2,
        says=("0.8.5", "0.9.0"),
    ),
    Case(
        name="layers-0-dropped-by-an-old-sglang",
        rule="reading.tensors",
        base=lambda: pair(dialect="layers"),
        engines=SGLANG,
        broken_engines=("sglang==0.5.11",),
        target=LLAMA,
        says=("layers.0.", "dropped"),
    ),
    Case(
        name="wider-target-not-named",
        rule="reading.sizes",
        base=lambda: pair(tiny(target_hidden_size=40)),
        engines=SGLANG,
        target=target(architectures=["LlamaForCausalLM"], hidden_size=40, max_position_embeddings=256),
        change=without("config.target_hidden_size"),
        says=("target_hidden_size", "40"),
    ),
    Case(
        name="head-dim-derived-by-the-engine",
        rule="reading.sizes",
        engines=SGLANG,
        target=LLAMA,
        change=without("config.head_dim"),
        says=("head_dim 8", "head_dim 12"),
    ),
    Case(
        name="plain-decoder-class",
        rule="reading.outcome",
        engines=SGLANG,
        target=LLAMA,
        change=plain_decoder,
        says=("does not load it",),
    ),
    Case(name="q-proj-of-hidden-size", rule="wiring.attention-shapes", change=q_proj_only),
    Case(
        name="theta-moved-by-transformers-5",
        rule="reading.rope-theta",
        base=theta_in_parameters,
        engines=SGLANG,
        broken_engines=("sglang==0.5.9",),
        target=LLAMA,
        says=("10000", "5000000"),
    ),
    Case(
        name="theta-per-kind-of-attention",
        rule="reading.rope-theta",
        base=lambda: pair(tiny(rope=Rope(theta=5e6, table_length=256, rotary_dim=12))),
        engines=SGLANG,
        target=LLAMA,
        change=per_attention_type,
        says=("10000", "5000000"),
    ),
    Case(
        name="window-that-an-engine-does-not-read",
        rule="reading.window",
        base=lambda: pair(tiny(rope=Rope(theta=10000.0, table_length=256, rotary_dim=12)), layout="flat", ids=(2, 4, 5)),
        engines=VLLM_V1,
        target=LLAMA,
        change=both(setting("contract.wiring.window", 16), setting("config.sliding_window", 16)),
        says=("null", "16", "2.295"),
    ),
    Case(
        name="deepseek-target-before-it-captured",
        rule="reading.outcome",
        base=lambda: named(pair(layout="flat", ids=(2, 4, 5)), "deepseek_v3"),
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.17.0",),
        target=KIMI,
    ),
    Case(
        name="target-class-without-the-interface",
        rule="reading.outcome",
        base=lambda: named(pair(layout="flat", ids=(2, 4, 5)), "qwen3_moe"),
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.11.0",),
        target=served("Qwen3MoeForCausalLM", model_type="qwen3_moe"),
    ),
    Case(
        name="llama-4-target-before-it-captured",
        rule="reading.outcome",
        base=lambda: named(pair(layout="flat", ids=(2, 4, 5)), "llama4"),
        engines=VLLM_V1,
        broken_engines=("vllm[v1]==0.11.0",),
        target=served("Llama4ForConditionalGeneration", model_type="llama4"),
    ),
    Case(
        name="qwen2-target-before-it-captured",
        rule="reading.outcome",
        base=lambda: named(pair(), "qwen2"),
        engines=SGLANG,
        broken_engines=("sglang==0.5.1",),
        target=served("Qwen2ForCausalLM", model_type="qwen2"),
    ),
    Case(
        name="vision-wrapper-without-the-hook",
        rule="reading.outcome",
        base=lambda: named(pair(), "qwen3_vl"),
        engines=SGLANG,
        broken_engines=("sglang==0.5.10",),
        target=served("Qwen3VLForConditionalGeneration", model_type="qwen3_vl"),
    ),
    Case(
        name="gemma-target-before-it-captured",
        rule="reading.outcome",
        base=lambda: named(pair(), "gemma4"),
        engines=SGLANG,
        broken_engines=("sglang==0.5.11",),
        target=served("Gemma4ForCausalLM", model_type="gemma4"),
    ),
    Case(
        name="no-draft-vocab-size",
        rule="reading.outcome",
        engines=SGLANG,
        target=LLAMA,
        change=without("config.draft_vocab_size"),
        says=("draft_vocab_size",),
    ),
    Case(
        name="drafter-of-a-family-without-a-class",
        rule="reading.outcome",
        base=lambda: pair(layout="speculators", ids=(2, 4, 5), dialect="layers"),
        engines=VLLM_V1,
        target=LLAMA,
        change=setting("config.transformer_layer_config.model_type", "mistral"),
        says=("does not load it",),
    ),
)
