"""vLLM: the three classes that run a drafter (Llama, Qwen3, DeepSeek's latent attention). Lines as in ``vllm``."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.conditions import any_of, equal, every, present, truthy
from eagle3_contract.readings.profiles.common import hard_coded, mla_params, mla_sizes, rope_rules, sizes, yarn_table
from eagle3_contract.readings.profiles.vllm_rows import (
    BASE,
    COUNT_KEYS,
    DROP_UNUSED,
    DTYPE,
    FC_APPLIED,
    FC_NEVER_CALLED,
    GQA_PARAMS,
    INPUT_NORM,
    LLAMA,
    MAP_GUARDS,
    MLA,
    NAMES,
    NESTED,
    NO_FC,
    NORMS,
    QUANTIZATION,
    QWEN,
    RAISED,
    RESIDUAL,
    ROPE,
    SHAPES,
    SHARED_PARAMS,
    TOP,
    UNEXPECTED,
    VOCABULARY,
    YARN_TABLE,
)
from eagle3_contract.readings.rules import DraftClass, Fate, Guard, Hit, Key, Load, Param, Phase, Rule, Turn, default, fixed

LLAMA_CLASS = DraftClass(
    name="Eagle3LlamaForCausalLM",
    architectures=(
        "Eagle3LlamaForCausalLM",
        "LlamaForCausalLMEagle3",
        "Eagle3MiniMaxM2ForCausalLM",
        "Eagle3Qwen2_5vlForCausalLM",
        "Eagle3Qwen3vlForCausalLM",
        "PeagleLlamaForCausalLM",
    ),
    source=f"{LLAMA}:424-490; models/registry.py:658-664",
    later={
        "LlamaForCausalLMEagle3": "0.10.1",
        "Eagle3Qwen2_5vlForCausalLM": "0.11.1",
        "Eagle3Qwen3vlForCausalLM": "0.12.0",
        "Eagle3MiniMaxM2ForCausalLM": "0.20.0",
        "PeagleLlamaForCausalLM": "0.22.0",
    },
    rules=(
        *sizes(f"{LLAMA}:150-260"),
        Rule(
            field="layers",
            choices=(fixed(1, "one layer is built and run, whatever num_hidden_layers says"),),
            until="0.11.1",
            source=f"{LLAMA}:150 (0.10.1)",
        ),
        Rule(field="attention", choices=(fixed("gqa"),), source=f"{LLAMA}:82"),
        Rule(field="qk_norm", choices=(fixed(False),), source=f"{LLAMA}:82"),
        *SHAPES,
        Rule(
            field="fc.count",
            source=f"{LLAMA}:206-215",
            choices=(NO_FC, *COUNT_KEYS, default(3, since="0.22.0"), fixed(3, "always 3 before 0.22.0", until="0.22.0")),
        ),
        Rule(
            field="fc.applied",
            source=f"{LLAMA}:398-422",
            choices=FC_APPLIED,
        ),
        INPUT_NORM,
        *NORMS,
        *RESIDUAL,
        Rule(
            field="attention.qkv_bias",
            source=f"{LLAMA}:83",
            choices=(
                fixed(False, "no bias before 0.16.0", until="0.16.0"),
                Key(path="cfg:attention_bias", turn=Turn.TRUTH),
                default(False),
            ),
        ),
        Rule(
            field="attention.o_bias",
            source=f"{BASE}:274-277",
            choices=(
                Key(path="cfg:attention_bias", hit=Hit.TRUTHY, turn=Turn.TRUTH),
                Key(path="cfg:bias", hit=Hit.TRUTHY, turn=Turn.TRUTH),
                default(False),
            ),
        ),
        Rule(field="mlp_bias", choices=(Key(path="cfg:mlp_bias", turn=Turn.TRUTH), default(False)), source=f"{BASE}:305"),
        *ROPE,
        Rule(
            field="window",
            source=f"{BASE}:187-203",
            text="layer_types names sliding_attention; a token sees the window, itself included",
            choices=(
                Key(path="cfg:sliding_window", when=equal("cfg:layer_types.0", "sliding_attention"), since="0.10.1"),
                fixed(None, "full attention"),
            ),
        ),
        *VOCABULARY,
        DTYPE,
        QUANTIZATION,
    ),
    params=(
        *(
            Param(
                name=f"model.layers.{{i}}.mlp.{p}_proj.bias",
                shape=(size,),
                load=load,
                missing=Fate.MISSING_UNINITIALISED,
                when=equal("field:mlp_bias", True),
            )
            for p, size, load in (("gate", "I", Load.ROWS), ("up", "I", Load.ROWS), ("down", "H", Load.EXACT))
        ),
        Param(
            name="model.layers.{i}.self_attn.o_proj.bias",
            shape=("H",),
            missing=Fate.MISSING_UNINITIALISED,
            when=equal("field:attention.o_bias", True),
        ),
        *GQA_PARAMS,
    ),
    names=(*NAMES, *DROP_UNUSED),
    unknown=UNEXPECTED,
    guards=(
        *MAP_GUARDS,
        Guard(
            when=Check("cfg:draft_vocab_size", "null"),
            until="0.11.0",
            phase=Phase.BUILD,
            source=f"{LLAMA} (0.10.1)",
            error="TypeError: draft_vocab_size is None",
        ),
    ),
)

QWEN_CLASS = DraftClass(
    name="Eagle3Qwen3ForCausalLM",
    architectures=("Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM"),
    since="0.24.0",
    source=f"{QWEN}; models/registry.py:665-666",
    rules=(
        *sizes(f"{QWEN}:150-260"),
        Rule(field="attention", choices=(fixed("gqa"),), source=f"{QWEN}:33"),
        Rule(field="qk_norm", choices=(fixed(True),), source="models/qwen3.py"),
        *SHAPES,
        Rule(
            field="fc.count",
            source=f"{QWEN}:205-216",
            choices=(
                NO_FC,
                Key(path="cfg:num_aux_layers", hit=Hit.NOT_NULL),
                Key(path="cfg:num_aux_hidden_states", hit=Hit.NOT_NULL),
                Key(path=TOP, hit=Hit.TRUTHY, turn=Turn.LENGTH),
                Key(path=NESTED, hit=Hit.TRUTHY, turn=Turn.LENGTH),
                default(3),
            ),
        ),
        Rule(
            field="fc.applied",
            source=f"{QWEN}",
            choices=FC_APPLIED,
        ),
        INPUT_NORM,
        *NORMS,
        *RESIDUAL,
        Rule(field="attention.qkv_bias", choices=(Key(path="cfg:attention_bias", turn=Turn.TRUTH), default(False)), source=f"{QWEN}:70"),
        *hard_coded("models/qwen3.py:115-121", {"attention.o_bias": False, "mlp_bias": False}),
        *ROPE,
        Rule(
            field="window",
            source=f"{QWEN}:46-53",
            text="layer_types names sliding_attention; a token sees the window, itself included",
            choices=(
                Key(
                    path="cfg:sliding_window",
                    when=every(
                        equal("cfg:layer_types.0", "sliding_attention"), any_of(present("file:algorithm"), truthy("cfg:use_sliding_window"))
                    ),
                ),
                fixed(None, "full attention"),
            ),
        ),
        *VOCABULARY,
        DTYPE,
        QUANTIZATION,
    ),
    params=(
        Param(name="model.layers.{i}.self_attn.q_norm.weight", shape=("D",), missing=Fate.MISSING_ONES),
        Param(name="model.layers.{i}.self_attn.k_norm.weight", shape=("D",), missing=Fate.MISSING_ONES),
        *GQA_PARAMS,
    ),
    names=(*NAMES, *DROP_UNUSED),
    unknown=UNEXPECTED,
    guards=MAP_GUARDS,
)

MLA_CLASS = DraftClass(
    name="Eagle3DeepseekV2ForCausalLM",
    architectures=("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM"),
    since="0.18.0",
    source=f"{MLA}; models/registry.py:672-673",
    rules=(
        *sizes(f"{MLA}:60-260"),
        *mla_sizes(f"{MLA}:64-80"),
        Rule(field="attention", choices=(fixed("mla"),), source=f"{MLA}:68"),
        Rule(field="qk_norm", choices=(fixed(False),), source=f"{MLA}:68"),
        *SHAPES,
        Rule(field="fc.count", source=f"{MLA}:180-184", choices=(*COUNT_KEYS, default(3, since="0.22.0"), fixed(3, until="0.22.0"))),
        Rule(
            field="fc.applied",
            choices=(FC_NEVER_CALLED, fixed(True, "fc is built and run whatever use_aux_hidden_state says")),
            source=f"{MLA}:360-371",
        ),
        Rule(field="norms.input_norm", choices=(fixed(False, "this class has no norm over the concatenation"),), source=f"{MLA}:180-215"),
        *NORMS,
        *RESIDUAL,
        *hard_coded(
            f"{MLA}:68-98",
            {"attention.qkv_bias": False, "attention.o_bias": False, "mlp_bias": False, "window": None, "rope.interleaved": True},
        ),
        *rope_rules("models/deepseek_v2.py:1110-1130"),
        Rule(
            field="rope.table_length",
            source="models/deepseek_v2.py:1115-1126",
            choices=(
                *yarn_table(YARN_TABLE),
                RAISED,
                Key(path="cfg:max_position_embeddings"),
                default(8192),
            ),
        ),
        Rule(field="rope.rotary_dim", choices=(fixed("@mla.qk_rope_head_dim"),), source=f"{MLA}:66"),
        *VOCABULARY,
        DTYPE,
        QUANTIZATION,
    ),
    params=(
        Param(name="model.fc.weight", shape=("H", "G*K"), missing=Fate.MISSING_UNINITIALISED),
        *mla_params("model.layers.{i}", together=False),
        Param(
            name="model.layers.{i}.self_attn.q_proj.weight",
            shape=("NH*NOPE+NH*ROPE", "IN"),
            load=Load.ROWS,
            missing=Fate.MISSING_UNINITIALISED,
            when=equal("field:mla.q_lora_rank", None),
        ),
        *SHARED_PARAMS,
    ),
    names=tuple(n for n in NAMES if n.text != "mask_hidden"),
    unknown=UNEXPECTED,
    guards=MAP_GUARDS[:3],
)
