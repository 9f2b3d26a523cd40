"""SGLang: the two classes that run a drafter, their fields, parameters and loaders. Lines as in ``sglang``."""

from __future__ import annotations

from dataclasses import replace

from eagle3_contract.readings.conditions import Not, absent, any_of, equal, every, less, one_of, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import (
    attention_params,
    hard_coded,
    layer_params,
    mla_params,
    mla_sizes,
    norms_list,
    rope_rules,
    sizes,
    yarn_table,
)
from eagle3_contract.readings.rules import (
    DraftClass,
    Fate,
    Guard,
    Hit,
    Key,
    Load,
    Name,
    NameOp,
    Origin,
    Param,
    Phase,
    Rule,
    Turn,
    Unknown,
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
        "rope.interleaved": False,
    },
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
QUANTIZATION = Rule(
    field="quantization",
    source="arg_groups/serving_hook.py:675-709",
    choices=(
        fixed(None, "asked to be unquantised", when=equal("flag:speculative_draft_model_quantization", "unquant")),
        Key(path="flag:speculative_draft_model_quantization", hit=Hit.NOT_NULL),
        Key(path="cfg:quantization_config.quant_method", hit=Hit.NOT_NULL),
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


ONE_LAYER = "ValueError: EAGLE3 currently only supports 1 layer"
LLAMA_CLASS = DraftClass(
    name="LlamaForCausalLMEagle3",
    architectures=("LlamaForCausalLMEagle3",),
    source=f"{LLAMA}:325-387",
    rules=(
        *sizes(f"{LLAMA}:122-207"),
        Rule(field="attention", choices=(fixed("gqa"),), source=f"{LLAMA}:67"),
        Rule(field="kv_heads", choices=(Key(path="cfg:num_key_value_heads"),), source=f"{BASE}:340"),
        Rule(field="head_dim", choices=(Key(path="cfg:head_dim", hit=Hit.NOT_NULL), default("=HC//NHC")), source=f"{BASE}:184-186"),
        Rule(field="target_hidden_size", choices=(Key(path="cfg:target_hidden_size"), default("@hidden_size")), source=f"{LLAMA}:151-154"),
        Rule(
            field="fc.count",
            source=f"{LLAMA}:156-161",
            choices=(
                fixed(3, "always 3 before 0.5.12", until="0.5.12"),
                Key(path="cfg:num_aux_hidden_states", hit=Hit.NOT_NULL),
                Key(path=IDS, hit=Hit.TRUTHY, turn=Turn.LENGTH),
                default(3),
            ),
        ),
        FC_APPLIED,
        Rule(field="fc.bias", choices=(Key(path="cfg:bias", turn=Turn.TRUTH), default(False)), source=f"{LLAMA}:163-167"),
        Rule(
            field="norms.input_norm",
            source=f"{LLAMA}:173-182",
            choices=(
                Key(path="cfg:eagle_config.norm_before_fc", turn=Turn.TRUTH, since="0.5.17"),
                Key(path="cfg:norm_before_fc", turn=Turn.TRUTH, since="0.5.17"),
                default(False, since="0.5.17"),
                fixed(False, "not implemented before 0.5.17", until="0.5.17"),
            ),
        ),
        FC_NORM,
        norms_list(f"{LLAMA}:173-196"),
        FEEDBACK,
        *FIXED,
        Rule(
            field="wiring.later_layer_norm",
            choices=(fixed("hidden_norm", since="0.5.12"), fixed("none", "one layer only", until="0.5.12")),
            source=f"{LLAMA}:104-106",
        ),
        *hard_coded(f"{LLAMA}:67-75", {"attention.qkv_bias": False, "mlp_bias": False}),
        Rule(
            field="attention.o_bias",
            source=f"{BASE}:336-340",
            choices=(
                Key(path="cfg:attention_bias", hit=Hit.TRUTHY, turn=Turn.TRUTH),
                Key(path="cfg:bias", hit=Hit.TRUTHY, turn=Turn.TRUTH),
                default(False),
            ),
        ),
        *rope_rules(f"{BASE}:322-327"),
        Rule(
            field="rope.table_length",
            choices=(
                *yarn_table("layers/rotary_embedding/factory.py:311-318, yarn.py:171-175"),
                LENGTHENED,
                Key(path="cfg:max_position_embeddings"),
                default(8192),
            ),
            source=f"{BASE}:333",
        ),
        Rule(
            field="rope.rotary_dim",
            choices=(fixed("=PART*D", when=present("cfg:rope_parameters.partial_rotary_factor")), fixed("@head_dim")),
            source=f"{BASE}:187-188",
        ),
        DERIVED,
        Rule(
            field="window",
            source=f"{LLAMA}:294-300",
            text="a token sees the window and itself",
            choices=(
                Key(path="flag:speculative_draft_window_size", hit=Hit.NOT_NULL, turn=Turn.NEXT, since="0.5.12"),
                fixed(None, "the drafter's sliding_window is not read"),
            ),
        ),
        Rule(
            field="vocab.draft_size",
            source=f"{LLAMA}:306-314",
            choices=(
                Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL),
                default("@vocab.size", "null counts as vocab_size", when=present("cfg:draft_vocab_size")),
            ),
        ),
        *MAP,
        Rule(
            field="embedding.used",
            source=f"{BASE}:910-924; {WORKER}:363",
            choices=(
                fixed(
                    "own",
                    "target_hidden_size differs from hidden_size",
                    when=every(present("cfg:target_hidden_size"), unlike("cfg:target_hidden_size", "=H")),
                ),
                fixed("target", "always the target's"),
            ),
        ),
        HEAD,
        DTYPE,
        QUANTIZATION,
    ),
    params=(
        Param(name="model.fc.weight", shape=("H", "G*K"), missing=Fate.MISSING_RANDOM),
        Param(name="model.fc.bias", shape=("H",), missing=Fate.MISSING_RANDOM, when=equal("field:fc.bias", True)),
        Param(name="model.input_norm.weight", shape=("G*K",), missing=Fate.MISSING_ONES, when=equal("field:norms.input_norm", True)),
        *shared_params(),
        *llama_layer("model.midlayer", until="0.5.12"),
        *llama_layer("model.layers.{i}", since="0.5.12"),
    ),
    names=(
        Name(op=NameOp.REPLACE, text="midlayer", new="layers.0", since="0.5.12"),
        Name(op=NameOp.REPLACE, text="aux_norm_low", new="fc_norm.0", since="0.5.12"),
        Name(op=NameOp.REPLACE, text="aux_norm_mid", new="fc_norm.1", since="0.5.12"),
        Name(op=NameOp.REPLACE, text="aux_norm_high", new="fc_norm.2", since="0.5.12"),
        Name(op=NameOp.CALL, text="d2t", new="d2t"),
        Name(op=NameOp.DROP, text="t2d"),
        Name(op=NameOp.TRY_PREFIX, new="model."),
    ),
    unknown=(Unknown(fate=Fate.DROPPED),),
    guards=(
        Guard(
            when=every(truthy("cfg:eagle_config"), Not(Check("cfg:eagle_config", "is", "dict"))),
            since="0.5.12",
            phase=Phase.BUILD,
            source=f"{LLAMA}:158",
            error="AttributeError: eagle_config is no mapping",
        ),
        Guard(
            when=Check("cfg:target_hidden_size", "null"),
            phase=Phase.BUILD,
            source=f"{LLAMA}:151-154",
            error="TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'",
        ),
        Guard(when=unlike("field:layers", 1), phase=Phase.BUILD, error=ONE_LAYER, source=f"{LLAMA} (0.5.8)", until="0.5.12"),
        Guard(
            when=Check("cfg:draft_vocab_size", "null"),
            phase=Phase.BUILD,
            error="TypeError: draft_vocab_size is None",
            source=f"{LLAMA} (0.5.4)",
            until="0.5.5",
        ),
    ),
)

MLA_CLASS = DraftClass(
    name="Eagle3DeepseekV2ForCausalLM",
    architectures=("Eagle3DeepseekV2ForCausalLM",),
    source=f"{MLA}:428-523",
    since="0.5.12",
    rules=(
        *sizes(f"{MLA}:190-260"),
        *mla_sizes(f"{MLA}:91-100"),
        Rule(field="attention", choices=(fixed("mla"),), source=f"{MLA}:91"),
        Rule(field="kv_heads", choices=(Key(path="cfg:num_key_value_heads"),), source=f"{MLA}:91"),
        Rule(field="head_dim", choices=(Key(path="cfg:head_dim", hit=Hit.NOT_NULL), default("=HC//NHC")), source=f"{MLA}:91"),
        Rule(
            field="target_hidden_size",
            choices=(Key(path="cfg:target_hidden_size", hit=Hit.TRUTHY), default("@hidden_size")),
            source=f"{MLA}:208-210",
        ),
        Rule(
            field="fc.count",
            source=f"{MLA}:48-59",
            choices=(
                Key(path=IDS, hit=Hit.NOT_NULL, turn=Turn.LENGTH),
                Key(path="cfg:eagle_aux_hidden_state_layer_ids", hit=Hit.NOT_NULL, turn=Turn.LENGTH),
                default(3),
            ),
        ),
        FC_APPLIED,
        Rule(field="fc.bias", choices=(Key(path="cfg:bias", turn=Turn.TRUTH), default(False)), source=f"{MLA}:215"),
        Rule(field="norms.input_norm", choices=(fixed(False, "this class has no norm over the concatenation"),), source=f"{MLA}:228-241"),
        FC_NORM,
        norms_list(f"{MLA}:228-241"),
        FEEDBACK,
        *FIXED[:-1],
        *hard_coded(
            f"{MLA}:91-119",
            {
                "wiring.later_layer_norm": "none",
                "attention.qkv_bias": False,
                "attention.o_bias": False,
                "mlp_bias": False,
                "rope.interleaved": True,
            },
        ),
        *rope_rules(f"{MLA}:80-90"),
        Rule(
            field="rope.table_length",
            source="layers/rotary_embedding DeepseekScalingRotaryEmbedding",
            choices=(*yarn_table("layers/rotary_embedding/rope_variant.py:406-411"), Key(path="cfg:max_position_embeddings")),
        ),
        Rule(field="rope.rotary_dim", choices=(fixed("@mla.qk_rope_head_dim"),), source=f"{MLA}:91"),
        DERIVED,
        Rule(
            field="window",
            choices=(fixed(None, "--speculative-draft-window-size is not read by this class"),),
            source="arg_groups/fields/spec.py:165-168",
        ),
        Rule(
            field="vocab.draft_size",
            source=f"{MLA}:350-362",
            choices=(
                Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL),
                default("@vocab.size"),
            ),
        ),
        *MAP,
        Rule(
            field="embedding.used",
            source=f"{MLA}:402-411",
            choices=(
                fixed(
                    "own",
                    "target_hidden_size differs from hidden_size",
                    when=every(
                        present("cfg:target_hidden_size"), unlike("cfg:target_hidden_size", None), unlike("cfg:target_hidden_size", "=H")
                    ),
                ),
                fixed("target", "always the target's"),
            ),
        ),
        Rule(
            field="lm_head.used",
            source=f"{MLA}:350-362",
            choices=(
                *HEAD.choices[:3],
                fixed("target", "no draft_vocab_size", when=any_of(absent("cfg:draft_vocab_size"), Check("cfg:draft_vocab_size", "null"))),
                fixed("own"),
            ),
        ),
        DTYPE,
        QUANTIZATION,
    ),
    params=(
        Param(name="model.fc.weight", shape=("H", "G*K"), load=Load.ROWS, missing=Fate.MISSING_UNINITIALISED),
        Param(name="model.fc.bias", shape=("H",), load=Load.ROWS, missing=Fate.MISSING_ZEROS, when=equal("field:fc.bias", True)),
        *mla_params("model.midlayer", together=True),
        *layer_params("model.midlayer"),
        *shared_params(),
    ),
    names=(
        Name(op=NameOp.CALL, text="d2t", new="d2t"),
        Name(op=NameOp.DROP, text="t2d"),
        Name(op=NameOp.REPLACE_START, text="layers.0.", new="midlayer."),
        Name(op=NameOp.PREFIX, new="model.", unless=("lm_head.", "d2t")),
    ),
    unknown=(Unknown(fate=Fate.DROPPED),),
    guards=(
        Guard(when=unlike("field:layers", 1), phase=Phase.BUILD, error=ONE_LAYER, source=f"{MLA}:243-244"),
        Guard(
            when=Check("cfg:q_lora_rank", "null"),
            phase=Phase.BUILD,
            error="ValueError: Eagle3 MLA layer requires q_lora_rank in the draft config",
            source=f"{MLA}:111-114",
        ),
    ),
)
