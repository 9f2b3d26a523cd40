"""SGLang: the class of drafters with latent attention, its fields, parameters and loader. Lines as in ``sglang``."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.conditions import absent, any_of, equal, every, present, unlike
from eagle3_contract.readings.profiles.common import (
    hard_coded,
    layer_params,
    mla_params,
    mla_sizes,
    norms_list,
    rope_rules,
    sizes,
    yarn_table,
)
from eagle3_contract.readings.profiles.sglang_common import (
    DERIVED,
    DTYPE,
    FC_APPLIED,
    FC_NORM,
    FEEDBACK,
    FIXED,
    HEAD,
    IDS,
    MAP,
    MLA,
    ONE_LAYER,
    QUANTIZATION,
    shared_params,
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
    Param,
    Phase,
    Rule,
    Turn,
    Unknown,
    default,
    fixed,
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
        *FIXED,
        *hard_coded(
            f"{MLA}:91-119",
            {
                "wiring.later_layer_norm": "none",
                "attention.qkv_bias": False,
                "attention.o_bias": False,
                "mlp_bias": False,
            },
        ),
        Rule(
            field="rope.interleaved",
            source="models/deepseek_v2.py:2166",
            choices=(Key(path="cfg:rope_interleave", turn=Turn.TRUTH), default(True)),
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
