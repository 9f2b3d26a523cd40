"""SGLang: the Llama class of drafters, its fields, parameters and loaders. Lines as in ``sglang``."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Not, equal, every, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import (
    hard_coded,
    norms_list,
    rope_rules,
    sizes,
    yarn_table,
)
from eagle3_contract.readings.profiles.sglang_common import (
    BASE,
    DERIVED,
    DTYPE,
    FC_APPLIED,
    FC_NORM,
    FEEDBACK,
    FIXED,
    HEAD,
    IDS,
    INTERLEAVED,
    LENGTHENED,
    LLAMA,
    MAP,
    ONE_LAYER,
    QUANTIZATION,
    WORKER,
    llama_layer,
    shared_params,
)
from eagle3_contract.readings.rules import (
    DraftClass,
    Fate,
    Guard,
    Hit,
    Key,
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
        INTERLEAVED,
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
