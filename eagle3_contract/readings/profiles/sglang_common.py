"""SGLang: what both classes that run a drafter have in common. Lines as in ``sglang``."""

from __future__ import annotations

from dataclasses import replace

from eagle3_contract.readings.conditions import Not, absent, any_of, equal, every, less, one_of, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import (
    attention_params,
    hard_coded,
    layer_params,
)
from eagle3_contract.readings.rules import (
    Fate,
    Hit,
    Key,
    Load,
    Origin,
    Param,
    Rule,
    Turn,
    Value,
    default,
    fixed,
)

LLAMA, MLA, BASE = "models/llama_eagle3.py", "models/kimi_k25_eagle3.py", "models/llama.py"
AUX = "model_executor/model_runner_components/spec_aux_hidden_state.py"
HOOK, WORKER, UTILS = "arg_groups/speculative_hook.py", "speculative/eagle_worker_v2.py", "speculative/eagle_utils.py"
IDS = "cfg:eagle_config.eagle_aux_hidden_state_layer_ids"
EAGLE3 = equal("field:serve.algorithm", "EAGLE3")
FINAL = "the algorithm is not EAGLE3: the target's normed last state is fed, as for EAGLE-1"
LONGER_ALLOWED = one_of("flag:env.SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "1", "true", "True")
LENGTHENED = Value(
    value="@serve.context_length",
    when=every(LONGER_ALLOWED, less("cfg:max_position_embeddings", "=CTX")),
    rule="overridden by the target's context length, as the environment allows it",
    source="configs/model_config.py:1306-1312",
)
HAS_MTP = ("DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM")
"""Targets that are their own drafter where no path is given (arg_groups/speculative_hook.py:1112-1140)."""
AUTO_TREE = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")

FC_APPLIED = Rule(
    field="fc.applied",
    source=f"{LLAMA}:238",
    choices=(
        Value(value=False, when=equal("=FED*TG", "=H"), rule="fc and its norms are skipped: the width fed equals the drafter's own"),
        fixed(True),
    ),
)
FIXED = hard_coded(
    f"{LLAMA}:97-119",
    {
        "wiring.norm_before_residual": False,
        "wiring.double_norm": False,
        "wiring.hidden_norm": True,
        "wiring.final_norm": True,
        "wiring.concat_order": "embedding_first",
        "wiring.step_positions": "advance",
        "wiring.positions_start": 0,
        "logit_scale": 1.0,
        "attention.scale": None,
        "qk_norm": False,
    },
)
INTERLEAVED = Rule(
    field="rope.interleaved",
    source=f"{BASE}:231, 335, 351",
    text="rope_is_neox_style, turned round",
    choices=(Key(path="cfg:rope_is_neox_style", turn=Turn.NOT), default(False)),
)
FC_NORM = Rule(
    field="norms.fc_norm",
    source=f"{LLAMA}:184-196",
    choices=(
        Key(path="cfg:fc_norm", hit=Hit.TRUTHY, turn=Turn.TRUTH, since="0.5.12"),
        Key(path="cfg:use_aux_norm", turn=Turn.TRUTH, since="0.5.12"),
        default(False, since="0.5.12"),
        fixed(False, "not implemented before 0.5.12", until="0.5.12"),
    ),
)
FEEDBACK = Rule(
    field="wiring.feedback",
    source=f"{LLAMA}:206-207, 263-269",
    choices=(
        Key(path="cfg:norm_output", turn=Turn.POST_IF_TRUE, since="0.5.12"),
        default("pre_norm", since="0.5.12"),
        fixed("pre_norm", "not implemented before 0.5.12", until="0.5.12"),
    ),
)
REQUANTIZES = (
    *("modelopt_fp4", "modelopt_mixed", "nvfp4_online", "minimax_m3_nvfp4", "petit_nvfp4", "w8a8_int8", "w8a8_fp8"),
    *("auto-round-int8", "quark_mxfp4"),
)
"""Methods that a flag puts over the one that the files name (configs/model_config.py:2042-2055); any other is overruled by the files,
``unquant`` too (2093-2136)."""
QUANTIZATION = Rule(
    field="quantization",
    source="configs/model_config.py:1727-1819, 2000-2136; arg_groups/serving_hook.py:675-709",
    choices=(
        Key(
            path="flag:speculative_draft_model_quantization",
            hit=Hit.NOT_NULL,
            when=one_of("flag:speculative_draft_model_quantization", *REQUANTIZES),
        ),
        Key(path="cfg:quantization_config.quant_method", hit=Hit.TRUTHY),
        Key(path="cfg:quantization_config.quantization.quant_algo", hit=Hit.TRUTHY),
        Key(path="cfg:quantization_config.quant_algo", hit=Hit.TRUTHY),
        Key(path="cfg:compression_config.quant_method", hit=Hit.TRUTHY, when=Check("cfg:quantization_config", "falsy")),
        Key(
            path="file:hf_quant_config.json quant_algo",
            hit=Hit.TRUTHY,
            when=every(Check("cfg:quantization_config", "falsy"), Check("cfg:compression_config", "falsy")),
        ),
        fixed(None, "asked to be unquantised", when=equal("flag:speculative_draft_model_quantization", "unquant")),
        Key(path="flag:speculative_draft_model_quantization", hit=Hit.NOT_NULL),
        Key(path="flag:quantization", hit=Hit.NOT_NULL),
        default(None),
    ),
    text="inherited from --quantization of the target where the drafter says nothing",
)
DTYPE = Rule(
    field="dtype",
    source="configs/model_config.py:2284-2330",
    choices=(
        Key(path="flag:dtype", when=unlike("flag:dtype", "auto")),
        Key(path="cfg:dtype", hit=Hit.NOT_NULL, when=unlike("cfg:dtype", "float32")),
        Key(path="cfg:torch_dtype", hit=Hit.NOT_NULL, when=unlike("cfg:torch_dtype", "float32")),
        default("float16", "a float32 config, or one without a dtype, is run in float16"),
    ),
    text="the drafter's own dtype, not the target's",
)
MAP = (
    Rule(
        field="vocab.present",
        source=f"{WORKER}:370-375",
        choices=(
            Value(value=False, origin=Origin.FLAG, when=Not(EAGLE3), rule="the algorithm is not EAGLE3: d2t is not used"),
            fixed(True, when=present("tensor:d2t")),
            default(False, "the file has no d2t"),
        ),
    ),
    Rule(
        field="vocab.map",
        source=f"{LLAMA}:350-353",
        choices=(
            fixed("offset", "target id = draft id + d2t[draft id]", when=equal("field:vocab.present", True)),
            default("identity", "draft ids are taken as target ids"),
        ),
    ),
)
HEAD = Rule(
    field="lm_head.used",
    source=f"{LLAMA}:302-314; {WORKER}:353-365",
    choices=(
        Value(value="target", origin=Origin.FLAG, when=Not(EAGLE3), rule="the algorithm is not EAGLE3: the target's head is shared"),
        fixed("tied_to_own", when=every(truthy("cfg:tie_word_embeddings"), equal("field:embedding.used", "own"))),
        fixed("tied_to_target", "lm_head is embed_tokens, which is the target's", when=truthy("cfg:tie_word_embeddings")),
        fixed("target", "draft_vocab_size is null", when=Check("cfg:draft_vocab_size", "null"), since="0.5.5"),
        fixed("own"),
    ),
)
DERIVED = Rule(
    field="rope.context",
    source="utils/hf_transformers/common.py:677-694",
    choices=(
        Key(
            path="cfg:max_position_embeddings",
            when=any_of(
                absent("cfg:rope_parameters.factor"),
                present("cfg:rope_parameters.original_max_position_embeddings"),
                equal("field:rope.type", "llama3"),
            ),
        ),
        fixed("=FACTOR*MAXPOS"),
    ),
)
ONE_LAYER = "ValueError: EAGLE3 currently only supports 1 layer"
UNTIED = Not(truthy("cfg:tie_word_embeddings"))


def shared_params() -> tuple[Param, ...]:
    """Parameters outside the layers, in both classes."""
    return (
        Param(name="model.embed_tokens.weight", shape=("V", "H"), load=Load.VOCABULARY, missing=Fate.MISSING_UNINITIALISED),
        Param(name="lm_head.weight", shape=("DV", "H"), load=Load.VOCABULARY, missing=Fate.MISSING_UNINITIALISED, when=UNTIED),
        Param(name="model.norm.weight", shape=("H",), missing=Fate.MISSING_ONES),
        Param(name="model.fc_norm.{k}.weight", shape=("G",), missing=Fate.MISSING_ONES, when=equal("field:norms.fc_norm", True)),
        Param(name="d2t", shape=(), load=Load.ANY, missing=Fate.DROPPED),
    )


def llama_layer(layer: str, *, since: str = "", until: str = "") -> tuple[Param, ...]:
    """One layer of the Llama class; before 0.5.12 it was called ``midlayer``, and tensors named ``layers.0.`` were dropped."""
    bias = Param(
        name=f"{layer}.self_attn.o_proj.bias", shape=("H",), missing=Fate.MISSING_ZEROS, when=equal("field:attention.o_bias", True)
    )
    return tuple(replace(p, since=since, until=until) for p in (bias, *attention_params(layer), *layer_params(layer)))
