"""vLLM: rows that its three drafter classes share. Lines as in ``vllm``."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Not, absent, any_of, equal, every, less, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import attention_params, hard_coded, layer_params, norms_list, rope_rules, yarn_table
from eagle3_contract.readings.rules import (
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
    not_known,
)

LLAMA, QWEN, MLA = "models/llama_eagle3.py", "models/qwen3_eagle3.py", "models/deepseek_eagle3.py"
BASE, PROPOSER, CONFIG = "models/llama.py", "v1/spec_decode/llm_base_proposer.py", "config/speculative.py"
V1, V2 = "v1/worker/gpu_model_runner.py", "v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"
ALGOS = "transformers_utils/configs/speculators/algos.py"
TOP, NESTED = "cfg:eagle_aux_hidden_state_layer_ids", "cfg:eagle_config.eagle_aux_hidden_state_layer_ids"
SPEC = "flag:speculative_config"
SERVED = Check("flag:model", "names", "@file:name")
NO_AUX = every(present("cfg:eagle_config.use_aux_hidden_state"), Check("cfg:eagle_config.use_aux_hidden_state", "falsy"))
MAPPED = unlike("=DV", "=TV")
ON_CPU = equal("flag:device", "cpu")

EAGLE1 = equal("field:serve.method", "eagle")
FC_NEVER_CALLED = Value(value=False, origin=Origin.FLAG, when=EAGLE1, rule="method is eagle, not eagle3: fc is loaded and never called")
FC_APPLIED = (
    FC_NEVER_CALLED,
    fixed(False, "use_aux_hidden_state is false: no fc is built", when=NO_AUX),
    fixed(True),
)
NO_FC = fixed(0, "use_aux_hidden_state is false: no fc is built", when=NO_AUX, since="0.12.0")
COUNT_KEYS = (
    Key(path="cfg:num_aux_hidden_states", hit=Hit.NOT_NULL, since="0.22.0"),
    Key(path=NESTED, hit=Hit.TRUTHY, turn=Turn.LENGTH, since="0.22.0"),
)
FC_NORM = Rule(
    field="norms.fc_norm",
    source=f"{LLAMA}:230-240",
    choices=(
        fixed(False, "no fc is built", when=NO_AUX),
        Key(path="cfg:fc_norm", turn=Turn.TRUTH, since="0.22.0"),
        default(False, since="0.22.0"),
        fixed(False, "not implemented before 0.22.0", until="0.22.0"),
    ),
)
INPUT_NORM = Rule(
    field="norms.input_norm",
    source=f"{LLAMA}:167-171, 222-228",
    choices=(
        fixed(False, "no fc is built", when=NO_AUX),
        Key(path="cfg:eagle_config.norm_before_fc", turn=Turn.TRUTH, since="0.22.0"),
        Key(path="cfg:norm_before_fc", turn=Turn.TRUTH, since="0.18.0"),
        default(False, since="0.18.0"),
        fixed(False, "not implemented before 0.18.0", until="0.18.0"),
    ),
)
NORMS = (FC_NORM, norms_list(f"{LLAMA}:222-240"))
RESIDUAL = (
    Rule(
        field="wiring.norm_before_residual",
        source=f"{LLAMA}:101",
        choices=(
            Key(path="cfg:norm_before_residual", turn=Turn.TRUTH, since="0.10.1"),
            default(False, since="0.10.1"),
            fixed(False, "not implemented before 0.10.1", until="0.10.1"),
        ),
    ),
    Rule(
        field="wiring.feedback",
        source=f"{LLAMA}:251, 289-292",
        choices=(
            Key(path="cfg:norm_output", turn=Turn.POST_IF_TRUE, since="0.22.0"),
            default("pre_norm", since="0.22.0"),
            fixed("pre_norm", "not implemented before 0.22.0", until="0.22.0"),
        ),
    ),
    Rule(
        field="wiring.later_layer_norm",
        source=f"{LLAMA}:136-138",
        choices=(fixed("input_layernorm", since="0.11.1"), fixed("none", "one layer only", until="0.11.1")),
    ),
    *hard_coded(
        f"{LLAMA}:110-150",
        {
            "wiring.double_norm": False,
            "wiring.hidden_norm": True,
            "wiring.final_norm": True,
            "wiring.concat_order": "embedding_first",
            "wiring.step_positions": "advance",
            "wiring.positions_start": 0,
            "attention.scale": None,
            "fc.bias": False,
        },
    ),
    Rule(
        field="attention.causal",
        source=f"{BASE}:277-283; qwen3.py:194-200",
        text="false builds EncoderOnlyAttention: every token of a forward sees the later ones, and no key is cached",
        choices=(Key(path="cfg:is_causal", turn=Turn.TRUTH), default(True)),
    ),
    Rule(field="logit_scale", choices=(Key(path="cfg:logit_scale"), default(1.0)), source=f"{LLAMA}:333"),
)
SHAPES = (
    Rule(field="kv_heads", choices=(Key(path="cfg:num_key_value_heads", hit=Hit.NOT_NULL), default("@heads")), source=f"{BASE}:287-289"),
    Rule(field="head_dim", choices=(Key(path="cfg:head_dim", hit=Hit.TRUTHY), default("=HC//NHC")), source=f"{BASE}:151-152"),
    Rule(field="target_hidden_size", choices=(Key(path="cfg:target_hidden_size"), default("@hidden_size")), source=f"{LLAMA}:216-218"),
)
RAISED = Value(
    value="@serve.max_model_len",
    when=less("cfg:max_position_embeddings", "=MML"),
    rule="raised to the target's max_model_len",
    source=f"{CONFIG}:1597-1640",
    since="0.27.0",
)
LEGACY_TYPES = tuple(
    Value(
        value=new,
        when=equal("cfg:rope_parameters.rope_type", old),
        rule=f"the legacy rope type {old} is taken for {new}",
        source="transformers_utils/config.py patch_legacy_rope_type",
    )
    for old, new in (("su", "longrope"), ("mrope", "default"))
)
YARN_TABLE = "model_executor/layers/rotary_embedding/yarn_scaling_rope.py:76-80, deepseek_scaling_rope.py:103-108"
ROPE = (
    *rope_rules(f"{BASE}:238-250", *LEGACY_TYPES),
    Rule(
        field="rope.table_length",
        choices=(*yarn_table(YARN_TABLE), RAISED, Key(path="cfg:max_position_embeddings"), default(8192)),
        source=f"{BASE}:272",
    ),
    Rule(
        field="rope.rotary_dim",
        choices=(fixed("=PART*D", when=present("cfg:rope_parameters.partial_rotary_factor")), fixed("@head_dim")),
        source=f"{BASE}:245-250",
    ),
    Rule(field="rope.interleaved", choices=(fixed(False),), source=f"{BASE}:243"),
)
VOCABULARY = (
    Rule(
        field="vocab.draft_size",
        source=f"{LLAMA}:314-318",
        choices=(
            Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL),
            default("@vocab.size", "absent or null: the config's vocab_size", since="0.11.0"),
        ),
    ),
    Rule(
        field="vocab.present",
        source=f"{LLAMA}:337-345",
        choices=(
            fixed(False, "0.9.0 drops every map after loading it", until="0.9.1"),
            fixed(True, when=present("tensor:draft_id_to_target_id")),
            default(False, "the file has no d2t"),
        ),
    ),
    Rule(
        field="vocab.map",
        source=f"{LLAMA}:384-396",
        choices=(
            fixed("offset", "target id = draft id + d2t[draft id]", when=equal("field:vocab.present", True)),
            default("identity", "the map is zeros: draft ids are taken as target ids"),
        ),
    ),
    Rule(
        field="embedding.used",
        source=f"{PROPOSER}:1418-1495",
        choices=(
            fixed(
                "target",
                "the target's wherever the shapes are equal, before 0.11.1",
                when=every(equal("=H", "=TG"), equal("=V", "=TV")),
                until="0.11.1",
            ),
            fixed("own", "the target's has another shape", until="0.11.1"),
            fixed("own", "the file has its own", when=present("tensor:model.embed_tokens.weight")),
            fixed("own", "run as a plain draft model: nothing is shared", when=equal("field:serve.method", "draft_model")),
            default("own", "nothing was loaded into it: the target's has another width", when=unlike("=H", "=TG")),
            default("target", "the file has none"),
        ),
    ),
    Rule(
        field="lm_head.used",
        source=f"{PROPOSER}:1497-1550",
        choices=(
            fixed("own", "the file has its own", when=present("tensor:lm_head.weight")),
            fixed("own", "run as a plain draft model: nothing is shared", when=equal("field:serve.method", "draft_model")),
            fixed("own", "never shared with eagle3 drafters before 0.11.1", until="0.11.1"),
            default("target", "the file has none: the first rows of the target's head are used"),
        ),
    ),
)
HF_QUANT = "file:hf_quant_config.json quant_algo"
QUANTIZATION = Rule(
    field="quantization",
    source="models/utils.py:985-1007; transformers_utils/config.py:890-902, model_arch_config_convertor.py:263-303",
    text="the drafter's own, never the target's",
    choices=(
        Key(path=f"{SPEC}.quantization", hit=Hit.NOT_NULL),
        Key(path="cfg:quantization_config.quant_method", hit=Hit.TRUTHY),
        Key(path="file:quantization_config.quant_method", hit=Hit.TRUTHY),
        Key(
            path="cfg:quantization_config.quantization.quant_algo",
            hit=Hit.TRUTHY,
            when=equal("cfg:quantization_config.producer.name", "modelopt"),
        ),
        not_known("a quantization_config that names no quant_method", when=truthy("cfg:quantization_config")),
        Key(
            path=HF_QUANT,
            hit=Hit.TRUTHY,
            when=every(Check("cfg:quantization_config", "falsy"), equal("file:hf_quant_config.json producer", "modelopt")),
        ),
        not_known(
            "0.32.0 takes no method from hf_quant_config.json unless its producer is modelopt; other releases were not read",
            when=every(Check("cfg:quantization_config", "falsy"), present(HF_QUANT)),
        ),
        Key(path="cfg:compression_config.quant_method", hit=Hit.TRUTHY, when=Check("cfg:quantization_config", "falsy")),
        default(None),
    ),
)
DTYPE = Rule(
    field="dtype",
    source=f"{CONFIG}:1246",
    text="the target's; the drafter's own dtype is not read",
    choices=(
        Key(path="flag:dtype", when=unlike("flag:dtype", "auto")),
        Key(path="target:dtype", hit=Hit.NOT_NULL),
        Key(path="target:torch_dtype", hit=Hit.NOT_NULL),
        not_known("the target's config names no dtype"),
    ),
)

USES_FC = Not(NO_AUX)
SHARED_PARAMS = (
    Param(name="model.embed_tokens.weight", shape=("V", "H"), load=Load.VOCABULARY, missing=Fate.MISSING_UNINITIALISED),
    Param(name="lm_head.weight", shape=("DV", "H"), load=Load.VOCABULARY, missing=Fate.MISSING_UNINITIALISED),
    Param(name="model.norm.weight", shape=("H",), missing=Fate.MISSING_ONES),
    Param(name="draft_id_to_target_id", called="d2t", shape=("DV",), missing=Fate.MISSING_ZEROS, until="0.30.0"),
    Param(name="draft_id_to_target_id", called="d2t", shape=("DV",), missing=Fate.MISSING_ZEROS, when=MAPPED, since="0.30.0"),
    Param(name="model.fc_norm.{k}.weight", shape=("G",), missing=Fate.MISSING_ONES, when=equal("field:norms.fc_norm", True)),
    *layer_params("model.layers.{i}"),
)
GQA_PARAMS = (
    Param(name="model.fc.weight", shape=("H", "G*K"), missing=Fate.MISSING_RANDOM, when=USES_FC, until="0.11.1"),
    Param(name="model.fc.weight", shape=("H", "G*K"), missing=Fate.MISSING_UNINITIALISED, when=USES_FC, since="0.11.1"),
    Param(name="model.input_norm.weight", shape=("G*K",), missing=Fate.MISSING_ONES, when=equal("field:norms.input_norm", True)),
    Param(name="mask_hidden", shape=(), load=Load.ANY, missing=Fate.DROPPED, when=equal("field:serve.parallel_drafting", True)),
    *(
        Param(
            name=f"model.layers.{{i}}.self_attn.{p}_proj.bias",
            shape=(size,),
            load=Load.ROWS,
            missing=Fate.MISSING_UNINITIALISED,
            when=equal("field:attention.qkv_bias", True),
        )
        for p, size in (("q", "NH*D"), ("k", "NKV*D"), ("v", "NKV*D"))
    ),
    *attention_params("model.layers.{i}"),
    *SHARED_PARAMS,
)
NAMES = (
    Name(op=NameOp.DROP, text="t2d"),
    Name(op=NameOp.REPLACE, text="d2t", new="draft_id_to_target_id"),
    Name(op=NameOp.DROP, text="mask_hidden", when=equal("field:serve.parallel_drafting", False)),
    Name(op=NameOp.CALL, text="mask_hidden", new="mask_hidden"),
    Name(op=NameOp.PREFIX, new="model.", unless=("lm_head", "draft_id_to_target_id", "mask_hidden")),
    Name(op=NameOp.REPLACE, text="midlayer.", new="layers.0."),
)
DROP_UNUSED = (
    Name(op=NameOp.DROP, text="fc.", when=NO_AUX),
    Name(op=NameOp.DROP, text="input_norm.", when=equal("field:norms.input_norm", False)),
)
ROTARY = ("rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached")
UNEXPECTED = (
    Unknown(fate=Fate.ERROR, error="KeyError: {name!r}", dropped_endings=ROTARY, until="0.25.0"),
    Unknown(
        fate=Fate.ERROR,
        error="ValueError: There is no module or parameter named {name!r}",
        since="0.25.0",
        dropped_endings=(".bias", *ROTARY, "rotary_pos_emb.inv_freq"),
    ),
)
MAP_GUARDS = (
    Guard(
        when=every(truthy("cfg:eagle_config"), Not(Check("cfg:eagle_config", "is", "dict"))),
        since="0.12.0",
        phase=Phase.BUILD,
        source=f"{LLAMA}:161",
        error="AttributeError: eagle_config is no mapping",
    ),
    Guard(
        when=every(
            equal("field:vocab.present", True), any_of(Check("file:d2t.highest", ">", "=V-1"), Check("file:d2t.lowest", "<", "=0-V"))
        ),
        phase=Phase.FIRST_REQUEST,
        source=f"{LLAMA}:384-396",
        error="IndexError: a mapped id is outside the drafter's vocab_size",
    ),
    Guard(
        when=every(Not(MAPPED), unlike("=V", "=DV")),
        since="0.30.0",
        phase=Phase.FIRST_REQUEST,
        source=f"{LLAMA}:378-382",
        error="AssertionError: Expected logits to have shape (*, vocab_size)",
    ),
    Guard(
        when=every(equal("field:serve.parallel_drafting", True), absent("tensor:mask_hidden")),
        phase=Phase.WEIGHTS,
        source=f"{LLAMA}:451-456",
        error="ValueError: mask_hidden not found in weights but model is configured for parallel drafting",
    ),
)
