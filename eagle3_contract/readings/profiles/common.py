"""Rows that several engines share: sizes and rope as transformers hands them over, the symbols of shapes, the faults of its validation."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.conditions import absent, equal, every, one_of, present, unlike
from eagle3_contract.readings.rules import Fate, Guard, Hit, Key, Load, Param, Phase, Rule, Value, default, fixed

SYMBOLS = {
    "H": "field:hidden_size",
    "G": "field:target_hidden_size",
    "K": "field:fc.count",
    "N": "target:num_hidden_layers",
    "NH": "field:heads",
    "NKV": "field:kv_heads",
    "D": "field:head_dim",
    "I": "field:intermediate_size",
    "DV": "field:vocab.draft_size",
    "V": "field:vocab.size",
    "TV": "target:vocab_size",
    "TG": "target:hidden_size",
    "FED": "file:fed",
    "STEPS": "field:serve.steps",
    "TOPK": "field:serve.topk",
    "CTX": "field:serve.context_length",
    "MAXPOS": "cfg:max_position_embeddings",
    "FACTOR": "cfg:rope_parameters.factor",
    "ORIGINAL": "cfg:rope_parameters.original_max_position_embeddings",
    "PART": "cfg:rope_parameters.partial_rotary_factor",
    "MML": "field:serve.max_model_len",
    "NPRED": "cfg:n_predict",
    "HC": "cfg:hidden_size",
    "NHC": "cfg:num_attention_heads",
    "QLORA": "field:mla.q_lora_rank",
    "KVLORA": "field:mla.kv_lora_rank",
    "NOPE": "field:mla.qk_nope_head_dim",
    "ROPE": "field:mla.qk_rope_head_dim",
    "VD": "field:mla.v_head_dim",
}
"""H drafter width, G target width, K states, N target layers, NH/NKV heads, D head dim, I intermediate size, DV draft vocabulary, V the
config's vocabulary, TV/TG the target's vocabulary and width, FED states really fed."""


def sizes(source: str) -> tuple[Rule, ...]:
    """Sizes that are plain keys of the config (with the defaults of its config class)."""
    plain = {
        "hidden_size": "hidden_size",
        "heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "layers": "num_hidden_layers",
        "vocab.size": "vocab_size",
        "rms_norm_eps": "rms_norm_eps",
        "hidden_act": "hidden_act",
    }
    return tuple(Rule(field=f, choices=(Key(path=f"cfg:{k}"),), source=source) for f, k in plain.items())


def mla_sizes(source: str) -> tuple[Rule, ...]:
    """The sizes of multi-head latent attention."""
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return tuple(Rule(field=f"mla.{n}", choices=(Key(path=f"cfg:{n}", hit=Hit.NOT_NULL), default(None)), source=source) for n in names)


def norms_list(source: str) -> Rule:
    """``norms.before_fc`` from the two switches; both may be on, input_norm first."""
    both = every(equal("field:norms.input_norm", True), equal("field:norms.fc_norm", True))
    return Rule(
        field="norms.before_fc",
        source=source,
        choices=(
            fixed(["input_norm", "fc_norm"], when=both),
            fixed(["input_norm"], when=equal("field:norms.input_norm", True)),
            fixed(["fc_norm"], when=equal("field:norms.fc_norm", True)),
            fixed([]),
        ),
    )


def hard_coded(source: str, values: dict[str, object]) -> tuple[Rule, ...]:
    """Fields that no key changes."""
    return tuple(Rule(field=f, choices=(fixed(v),), source=source) for f, v in values.items())


def rope_rules(source: str, *renamed: Value) -> tuple[Rule, ...]:
    """Rope of a Llama-type drafter: the drafter's own, never the target's. ``renamed``: types that the engine takes for others."""
    return (
        Rule(field="rope.theta", choices=(Key(path="cfg:rope_parameters.rope_theta"), default(10000.0)), source=source),
        Rule(field="rope.type", choices=(*renamed, Key(path="cfg:rope_parameters.rope_type"), default("default")), source=source),
        Rule(field="rope.scaling", choices=(Key(path="cfg:rope_parameters"),), source=source),
    )


def yarn_table(source: str) -> tuple[Value, Value]:
    """Rows of a yarn table: the length before stretching times the factor, whatever max_position_embeddings says."""
    yarn, original = equal("field:rope.type", "yarn"), "cfg:rope_parameters.original_max_position_embeddings"
    return (
        Value(
            value="=ORIGINAL*FACTOR",
            when=every(yarn, present(original)),
            rule="original_max_position_embeddings * factor",
            source=source,
        ),
        Value(value="=MAXPOS*FACTOR", when=every(yarn, absent(original)), rule="max_position_embeddings * factor", source=source),
    )


def rope_type_guard(source: str, *known: str) -> Guard:
    """The engine's table of rope classes has no other types."""
    return Guard(
        when=every(equal("field:attention", "gqa"), Check("field:rope.type", "not in", known)),
        phase=Phase.BUILD,
        error="ValueError: Unknown RoPE scaling type",
        source=source,
    )


def rope_guards(source: str, *long: str) -> tuple[Guard, ...]:
    """transformers refuses rope parameters that lack what their type needs (modeling_rope_utils.py ``validate_rope``). ``long``: other
    names of longrope."""
    needs = (
        (("linear", "dynamic", "yarn", "llama3"), "factor"),
        (("llama3",), "original_max_position_embeddings"),
        (("llama3",), "low_freq_factor"),
        (("llama3",), "high_freq_factor"),
        (("longrope", *long), "short_factor"),
        (("longrope", *long), "long_factor"),
    )
    return tuple(
        Guard(
            when=every(one_of("cfg:rope_parameters.rope_type", *types), absent(f"cfg:rope_parameters.{key}")),
            phase=Phase.CONFIG,
            error=f"KeyError: Missing required keys in `rope_parameters`: {key}",
            source=source,
        )
        for types, key in needs
    )


def layer_params(prefix: str, *, hidden_norm: bool = True) -> tuple[Param, ...]:
    """MLP and norms of a drafter layer, as SGLang and vLLM build them (gate and up are parts of one fused parameter)."""
    uninitialised, ones = Fate.MISSING_UNINITIALISED, Fate.MISSING_ONES
    return (
        Param(name=f"{prefix}.mlp.gate_proj.weight", shape=("I", "H"), load=Load.ROWS, missing=uninitialised),
        Param(name=f"{prefix}.mlp.up_proj.weight", shape=("I", "H"), load=Load.ROWS, missing=uninitialised),
        Param(name=f"{prefix}.mlp.down_proj.weight", shape=("H", "I"), load=Load.COLUMNS, missing=uninitialised),
        Param(name=f"{prefix}.input_layernorm.weight", shape=("H",), missing=ones),
        Param(name=f"{prefix}.post_attention_layernorm.weight", shape=("H",), missing=ones),
        *((Param(name=f"{prefix}.hidden_norm.weight", shape=("H",), missing=ones),) if hidden_norm else ()),
    )


def attention_params(prefix: str) -> tuple[Param, ...]:
    """Grouped-query attention of a drafter layer (q, k and v are parts of one fused parameter)."""
    missing = Fate.MISSING_UNINITIALISED
    return (
        Param(name=f"{prefix}.self_attn.q_proj.weight", shape=("NH*D", "IN"), load=Load.ROWS, missing=missing),
        Param(name=f"{prefix}.self_attn.k_proj.weight", shape=("NKV*D", "IN"), load=Load.ROWS, missing=missing),
        Param(name=f"{prefix}.self_attn.v_proj.weight", shape=("NKV*D", "IN"), load=Load.ROWS, missing=missing),
        Param(name=f"{prefix}.self_attn.o_proj.weight", shape=("H", "NH*D"), load=Load.COLUMNS, missing=missing),
    )


def mla_params(prefix: str, *, together: bool) -> tuple[Param, ...]:
    """Latent attention of a drafter layer. ``together``: the two down projections load only as a pair (SGLang caches one until the
    other comes)."""
    missing, low_rank = Fate.MISSING_UNINITIALISED, unlike("field:mla.q_lora_rank", None)
    q_pair, kv_pair = "q_a_proj.weight", "kv_a_proj_with_mqa.weight"
    return (
        Param(
            name=f"{prefix}.self_attn.{q_pair}", shape=("QLORA", "IN"), missing=missing, when=low_rank, with_=kv_pair if together else ""
        ),
        Param(name=f"{prefix}.self_attn.{kv_pair}", shape=("KVLORA+ROPE", "IN"), missing=missing, with_=q_pair if together else ""),
        Param(name=f"{prefix}.self_attn.q_a_layernorm.weight", shape=("QLORA",), missing=Fate.MISSING_ONES, when=low_rank),
        Param(name=f"{prefix}.self_attn.kv_a_layernorm.weight", shape=("KVLORA",), missing=Fate.MISSING_ONES),
        Param(
            name=f"{prefix}.self_attn.q_b_proj.weight", shape=("NH*NOPE+NH*ROPE", "QLORA"), load=Load.ROWS, missing=missing, when=low_rank
        ),
        Param(name=f"{prefix}.self_attn.kv_b_proj.weight", shape=("NH*NOPE+NH*VD", "KVLORA"), load=Load.ROWS, missing=missing),
        Param(name=f"{prefix}.self_attn.o_proj.weight", shape=("H", "NH*VD"), load=Load.COLUMNS, missing=missing),
    )
