"""vLLM 0.9.0 to 0.32.0, both model runners. Lines are those of the 0.32.0 wheel (``vllm/``) unless a version is named. The running
0.32.0 engine (V1 runner) did what this table says on 87 drafters; the V2 runner needs Triton and is known from the source only."""

from __future__ import annotations

from typing import Any

from eagle3_contract.readings.conditions import Not, absent, any_of, equal, every, less, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import (
    SYMBOLS, attention_params, hard_coded, layer_params, mla_params, mla_sizes, norms_list, rope_guards, rope_rules, sizes,
)
from eagle3_contract.readings.profiles.vllm_targets import FAMILIES
from eagle3_contract.readings.rules import (
    Architectures, BadIds, Capture, Copy, DraftClass, Fate, Guard, Hit, Key, Load, Name, NameOp, Param, Phase, Profile, Rule, Speculators, Turn,
    Unknown, Value, default, fixed, not_known,
)

LLAMA, QWEN, MLA = "models/llama_eagle3.py", "models/qwen3_eagle3.py", "models/deepseek_eagle3.py"
BASE, PROPOSER, CONFIG = "models/llama.py", "v1/spec_decode/llm_base_proposer.py", "config/speculative.py"
V1, V2 = "v1/worker/gpu_model_runner.py", "v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"
ALGOS = "transformers_utils/configs/speculators/algos.py"
TOP, NESTED = "cfg:eagle_aux_hidden_state_layer_ids", "cfg:eagle_config.eagle_aux_hidden_state_layer_ids"
SPEC = "flag:speculative_config"
SERVED = truthy("flag:serves_the_drafter")
NO_AUX = every(present("cfg:eagle_config.use_aux_hidden_state"), Check("cfg:eagle_config.use_aux_hidden_state", "falsy"))
MAPPED = unlike("=DV", "=TV")
ON_CPU = equal("flag:device", "cpu")

SERVE = (
    Rule(field="serve.method", source=f"{CONFIG}:1139-1300", choices=(
        Key(path=f"{SPEC}.method", hit=Hit.NOT_NULL),
        default("eagle3", "from the speculators config", when=SERVED),
        default("eagle3", "assumed: no serving flags were given", when=absent(SPEC)),
        default("eagle", "guessed from the folder's name", when=Check("file:name", "contains", "eagle-")),
        default("eagle3", "guessed from the folder's name", when=Check("file:name", "contains", "eagle3")),
        default("draft_model", "the folder's name says neither eagle- nor eagle3"),
    )),
    Rule(field="serve.draft_tokens", source=f"{CONFIG}:1455-1482; transformers_utils/configs/speculators/base.py", choices=(
        Key(path=f"{SPEC}.num_speculative_tokens", hit=Hit.NOT_NULL),
        Key(path="cfg:n_predict", hit=Hit.NOT_NULL),
        Key(path="file:tokens", hit=Hit.NOT_NULL, when=SERVED),
        default(None, "not given", when=present(SPEC)),
        not_known("no serving flags were given"),
    )),
    Rule(field="serve.max_model_len", source="config/model.py", choices=(Key(path="flag:max_model_len", hit=Hit.NOT_NULL), Key(path="target:context_length"))),
    Rule(field="serve.parallel_drafting", source=f"{LLAMA}:357", choices=(Key(path=f"{SPEC}.parallel_drafting", turn=Turn.TRUTH), default(False))),
)

WITH_EAGLE_CONFIG = every(Check("cfg:eagle_config", "is", "dict"), truthy("cfg:eagle_config"))
CAPTURE = Capture(
    enabled=Rule(field="capture.enabled", source=f"{PROPOSER}:1672-1685; {LLAMA}:161-166", choices=(
        Key(path="cfg:eagle_config.use_aux_hidden_state", turn=Turn.TRUTH, since="0.12.0"), default(True),
    )),
    ids=(
        Rule(field="capture.ids", until="0.11.1", runners=("v1",), source="v1/worker/gpu_model_runner.py (0.10.1)",
             choices=(fixed(None, "no key is read before 0.11.1"),)),
        Rule(field="capture.ids", since="0.11.1", until="0.20.0", runners=("v1",), source=f"{V1}:3410-3413 (0.11.1)", text="top-level ids only",
             choices=(Key(path=TOP, hit=Hit.TRUTHY), default(None))),
        Rule(field="capture.ids", since="0.20.0", until="0.22.0", runners=("v1",), source=f"{V1} (0.20.0)", text="top-level ids only",
             choices=(Key(path=TOP, hit=Hit.TRUTHY), Key(path="cfg:dflash_config.target_layer_ids", hit=Hit.TRUTHY), default(None))),
        Rule(field="capture.ids", since="0.22.0", runners=("v1",), source=f"{V1}:5268-5285", text="top-level ids, then nested ones", choices=(
            Key(path=TOP, hit=Hit.TRUTHY),
            Key(path=NESTED, hit=Hit.NOT_NULL, when=WITH_EAGLE_CONFIG),
            default(None, "an eagle_config without ids hides dflash_config", when=WITH_EAGLE_CONFIG),
            Key(path="cfg:dflash_config.target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH),
            default(None),
        )),
        Rule(field="capture.ids", since="0.17.0", until="0.24.0", runners=("v2",), source=f"{V2}:35-43 (0.17.0)",
             text="top-level ids only: nested eagle_aux_hidden_state_layer_ids are not read by this runner", choices=(Key(path=TOP, hit=Hit.TRUTHY), default(None))),
        Rule(field="capture.ids", since="0.24.0", runners=("v2",), source=f"{V2}:100-140",
             text="nested eagle_aux_hidden_state_layer_ids are not read by this runner", choices=(
            Key(path=TOP, hit=Hit.TRUTHY),
            Key(path="cfg:dflash_config.target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH),
            Key(path="cfg:dspark_target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH, since="0.25.0"),
            Key(path="cfg:target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH, since="0.25.0"),
            Key(path="cfg:dflash_config.layer_ids", hit=Hit.TRUTHY, since="0.27.0"),
            Key(path="cfg:eagle_config.layer_ids", hit=Hit.TRUTHY, since="0.27.0"),
            default(None),
        )),
    ),
    families=FAMILIES,
    not_a_list=BadIds.DEFAULT,
    not_numbers=BadIds.DEFAULT,
    empty_error="ValueError: too many values to unpack (no state is captured)",
)

NO_FC = fixed(0, "use_aux_hidden_state is false: no fc is built", when=NO_AUX, since="0.12.0")
COUNT_KEYS = (Key(path="cfg:num_aux_hidden_states", hit=Hit.NOT_NULL, since="0.22.0"), Key(path=NESTED, hit=Hit.TRUTHY, turn=Turn.LENGTH, since="0.22.0"))
FC_NORM = Rule(field="norms.fc_norm", source=f"{LLAMA}:230-240", choices=(
    fixed(False, "no fc is built", when=NO_AUX), Key(path="cfg:fc_norm", turn=Turn.TRUTH, since="0.22.0"), default(False, since="0.22.0"),
    fixed(False, "not implemented before 0.22.0", until="0.22.0"),
))
INPUT_NORM = Rule(field="norms.input_norm", source=f"{LLAMA}:167-171, 222-228", choices=(
    fixed(False, "no fc is built", when=NO_AUX), Key(path="cfg:eagle_config.norm_before_fc", turn=Turn.TRUTH, since="0.22.0"),
    Key(path="cfg:norm_before_fc", turn=Turn.TRUTH, since="0.18.0"), default(False, since="0.18.0"),
    fixed(False, "not implemented before 0.18.0", until="0.18.0"),
))
NORMS = (FC_NORM, norms_list(f"{LLAMA}:222-240"))
RESIDUAL = (
    Rule(field="wiring.norm_before_residual", source=f"{LLAMA}:101", choices=(
        Key(path="cfg:norm_before_residual", turn=Turn.TRUTH, since="0.10.1"), default(False, since="0.10.1"), fixed(False, "not implemented before 0.10.1", until="0.10.1"),
    )),
    Rule(field="wiring.feedback", source=f"{LLAMA}:251, 289-292", choices=(
        Key(path="cfg:norm_output", turn=Turn.POST_IF_TRUE, since="0.22.0"), default("pre_norm", since="0.22.0"),
        fixed("pre_norm", "not implemented before 0.22.0", until="0.22.0"),
    )),
    Rule(field="wiring.later_layer_norm", source=f"{LLAMA}:136-138", choices=(fixed("input_layernorm", since="0.11.1"), fixed("none", "one layer only", until="0.11.1"))),
    *hard_coded(f"{LLAMA}:110-150", {
        "wiring.double_norm": False, "wiring.hidden_norm": True, "wiring.final_norm": True, "wiring.concat_order": "embedding_first",
        "wiring.step_positions": "advance", "wiring.positions_start": 0, "attention.scale": None, "fc.bias": False,
    }),
    Rule(field="logit_scale", choices=(Key(path="cfg:logit_scale"), default(1.0)), source=f"{LLAMA}:333"),
)
SHAPES = (
    Rule(field="kv_heads", choices=(Key(path="cfg:num_key_value_heads", hit=Hit.NOT_NULL), default("@heads")), source=f"{BASE}:287-289"),
    Rule(field="head_dim", choices=(Key(path="cfg:head_dim", hit=Hit.TRUTHY), default("=HC//NHC")), source=f"{BASE}:151-152"),
    Rule(field="target_hidden_size", choices=(Key(path="cfg:target_hidden_size"), default("@hidden_size")), source=f"{LLAMA}:216-218"),
)
RAISED = Value(
    value="@serve.max_model_len", when=less("cfg:max_position_embeddings", "=MML"),
    rule="raised to the target's max_model_len", source=f"{CONFIG}:1597-1640", since="0.27.0",
)
ROPE = (
    *rope_rules(f"{BASE}:238-250"),
    Rule(field="rope.table_length", choices=(RAISED, Key(path="cfg:max_position_embeddings"), default(8192)), source=f"{BASE}:272"),
    Rule(field="rope.rotary_dim", choices=(fixed("=PART*D", when=present("cfg:rope_parameters.partial_rotary_factor")), fixed("@head_dim")), source=f"{BASE}:245-250"),
    Rule(field="rope.interleaved", choices=(fixed(False),), source=f"{BASE}:243"),
)
VOCABULARY = (
    Rule(field="vocab.draft_size", source=f"{LLAMA}:314-318", choices=(
        Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL), default("@vocab.size", "absent or null: the config's vocab_size", since="0.11.0"),
    )),
    Rule(field="vocab.present", source=f"{LLAMA}:337-345", choices=(
        fixed(False, "0.9.0 drops every map after loading it", until="0.9.1"),
        fixed(True, when=present("tensor:draft_id_to_target_id")), default(False, "the file has no d2t"),
    )),
    Rule(field="vocab.map", source=f"{LLAMA}:384-396", choices=(
        fixed("offset", "target id = draft id + d2t[draft id]", when=equal("field:vocab.present", True)),
        default("identity", "the map is zeros: draft ids are taken as target ids"),
    )),
    Rule(field="embedding.used", source=f"{PROPOSER}:1418-1495", choices=(
        fixed("target", "the target's wherever the shapes are equal, before 0.11.1", when=every(equal("=H", "=TG"), equal("=V", "=TV")), until="0.11.1"),
        fixed("own", "the target's has another shape", until="0.11.1"),
        fixed("own", "the file has its own", when=present("tensor:model.embed_tokens.weight")),
        fixed("own", "run as a plain draft model: nothing is shared", when=equal("field:serve.method", "draft_model")),
        default("own", "nothing was loaded into it: the target's has another width", when=unlike("=H", "=TG")),
        default("target", "the file has none"),
    )),
    Rule(field="lm_head.used", source=f"{PROPOSER}:1497-1550", choices=(
        fixed("own", "the file has its own", when=present("tensor:lm_head.weight")),
        fixed("own", "run as a plain draft model: nothing is shared", when=equal("field:serve.method", "draft_model")),
        fixed("own", "never shared with eagle3 drafters before 0.11.1", until="0.11.1"),
        default("target", "the file has none: the first rows of the target's head are used"),
    )),
)
DTYPE = Rule(field="dtype", source=f"{CONFIG}:1246", text="the target's; the drafter's own dtype is not read", choices=(
    Key(path="flag:dtype", when=unlike("flag:dtype", "auto")), Key(path="target:dtype", hit=Hit.NOT_NULL), Key(path="target:torch_dtype", hit=Hit.NOT_NULL),
    not_known("the target's config names no dtype"),
))

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
        Param(name=f"model.layers.{{i}}.self_attn.{p}_proj.bias", shape=(size,), load=Load.ROWS, missing=Fate.MISSING_UNINITIALISED,
              when=equal("field:attention.qkv_bias", True))
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
        fate=Fate.ERROR, error="ValueError: There is no module or parameter named {name!r}", since="0.25.0",
        dropped_endings=(".bias", *ROTARY, "rotary_pos_emb.inv_freq"),
    ),
)
MAP_GUARDS = (
    Guard(when=every(equal("field:vocab.present", True), any_of(Check("file:d2t.highest", ">", "=V-1"), Check("file:d2t.lowest", "<", "=0-V"))),
          phase=Phase.FIRST_REQUEST, source=f"{LLAMA}:384-396", error="IndexError: a mapped id is outside the drafter's vocab_size"),
    Guard(when=every(Not(MAPPED), unlike("=V", "=DV")), since="0.30.0", phase=Phase.FIRST_REQUEST, source=f"{LLAMA}:378-382",
          error="AssertionError: Expected logits to have shape (*, vocab_size)"),
    Guard(when=every(equal("field:serve.parallel_drafting", True), absent("tensor:mask_hidden")), phase=Phase.WEIGHTS, source=f"{LLAMA}:451-456",
          error="ValueError: mask_hidden not found in weights but model is configured for parallel drafting"),
)

LLAMA_CLASS = DraftClass(
    name="Eagle3LlamaForCausalLM",
    architectures=(
        "Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "Eagle3MiniMaxM2ForCausalLM", "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM",
        "PeagleLlamaForCausalLM",
    ),
    source=f"{LLAMA}:424-490; models/registry.py:658-664",
    later={
        "LlamaForCausalLMEagle3": "0.10.1", "Eagle3Qwen2_5vlForCausalLM": "0.11.1", "Eagle3Qwen3vlForCausalLM": "0.12.0",
        "Eagle3MiniMaxM2ForCausalLM": "0.20.0", "PeagleLlamaForCausalLM": "0.22.0",
    },
    rules=(
        *sizes(f"{LLAMA}:150-260"),
        Rule(field="layers", choices=(fixed(1, "one layer is built and run, whatever num_hidden_layers says"),), until="0.11.1", source=f"{LLAMA}:150 (0.10.1)"),
        Rule(field="attention", choices=(fixed("gqa"),), source=f"{LLAMA}:82"),
        Rule(field="qk_norm", choices=(fixed(False),), source=f"{LLAMA}:82"),
        *SHAPES,
        Rule(field="fc.count", source=f"{LLAMA}:206-215", choices=(NO_FC, *COUNT_KEYS, default(3, since="0.22.0"), fixed(3, "always 3 before 0.22.0", until="0.22.0"))),
        Rule(field="fc.applied", source=f"{LLAMA}:398-422", choices=(fixed(False, "use_aux_hidden_state is false: no fc is built", when=NO_AUX), fixed(True))),
        INPUT_NORM,
        *NORMS,
        *RESIDUAL,
        Rule(field="attention.qkv_bias", source=f"{LLAMA}:83", choices=(
            fixed(False, "no bias before 0.16.0", until="0.16.0"), Key(path="cfg:attention_bias", turn=Turn.TRUTH), default(False),
        )),
        Rule(field="attention.o_bias", source=f"{BASE}:274-277", choices=(
            Key(path="cfg:attention_bias", hit=Hit.TRUTHY, turn=Turn.TRUTH), Key(path="cfg:bias", hit=Hit.TRUTHY, turn=Turn.TRUTH), default(False),
        )),
        Rule(field="mlp_bias", choices=(Key(path="cfg:mlp_bias", turn=Turn.TRUTH), default(False)), source=f"{BASE}:305"),
        *ROPE,
        Rule(field="window", source=f"{BASE}:187-203", text="layer_types names sliding_attention; a token sees the window, itself included", choices=(
            Key(path="cfg:sliding_window", when=equal("cfg:layer_types.0", "sliding_attention"), since="0.10.1"), fixed(None, "full attention"),
        )),
        *VOCABULARY,
        DTYPE,
    ),
    params=(
        *(
            Param(name=f"model.layers.{{i}}.mlp.{p}_proj.bias", shape=(size,), load=load, missing=Fate.MISSING_UNINITIALISED, when=equal("field:mlp_bias", True))
            for p, size, load in (("gate", "I", Load.ROWS), ("up", "I", Load.ROWS), ("down", "H", Load.EXACT))
        ),
        Param(name="model.layers.{i}.self_attn.o_proj.bias", shape=("H",), missing=Fate.MISSING_UNINITIALISED, when=equal("field:attention.o_bias", True)),
        *GQA_PARAMS,
    ),
    names=(*NAMES, *DROP_UNUSED),
    unknown=UNEXPECTED,
    guards=(
        *MAP_GUARDS,
        Guard(when=Check("cfg:draft_vocab_size", "null"), until="0.11.0", phase=Phase.BUILD, source=f"{LLAMA} (0.10.1)", error="TypeError: draft_vocab_size is None"),
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
        Rule(field="fc.count", source=f"{QWEN}:205-216", choices=(
            NO_FC, Key(path="cfg:num_aux_layers", hit=Hit.NOT_NULL), Key(path="cfg:num_aux_hidden_states", hit=Hit.NOT_NULL),
            Key(path=TOP, hit=Hit.TRUTHY, turn=Turn.LENGTH), Key(path=NESTED, hit=Hit.TRUTHY, turn=Turn.LENGTH), default(3),
        )),
        Rule(field="fc.applied", source=f"{QWEN}", choices=(fixed(False, "use_aux_hidden_state is false: no fc is built", when=NO_AUX), fixed(True))),
        INPUT_NORM,
        *NORMS,
        *RESIDUAL,
        Rule(field="attention.qkv_bias", choices=(Key(path="cfg:attention_bias", turn=Turn.TRUTH), default(False)), source=f"{QWEN}:70"),
        *hard_coded("models/qwen3.py:115-121", {"attention.o_bias": False, "mlp_bias": False}),
        *ROPE,
        Rule(field="window", source=f"{QWEN}:46-53", text="layer_types names sliding_attention; a token sees the window, itself included", choices=(
            Key(path="cfg:sliding_window", when=every(equal("cfg:layer_types.0", "sliding_attention"), any_of(present("file:algorithm"), truthy("cfg:use_sliding_window")))),
            fixed(None, "full attention"),
        )),
        *VOCABULARY,
        DTYPE,
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
        Rule(field="fc.applied", choices=(fixed(True, "fc is built and run whatever use_aux_hidden_state says"),), source=f"{MLA}:360-371"),
        Rule(field="norms.input_norm", choices=(fixed(False, "this class has no norm over the concatenation"),), source=f"{MLA}:180-215"),
        *NORMS,
        *RESIDUAL,
        *hard_coded(f"{MLA}:68-98", {"attention.qkv_bias": False, "attention.o_bias": False, "mlp_bias": False, "window": None, "rope.interleaved": True}),
        *rope_rules("models/deepseek_v2.py:1110-1130"),
        Rule(field="rope.table_length", source="models/deepseek_v2.py:1115-1126", choices=(
            Key(path="cfg:rope_parameters.original_max_position_embeddings", when=unlike("field:rope.type", "default")),
            RAISED, Key(path="cfg:max_position_embeddings"), default(8192),
        )),
        Rule(field="rope.rotary_dim", choices=(fixed("@mla.qk_rope_head_dim"),), source=f"{MLA}:66"),
        *VOCABULARY,
        DTYPE,
    ),
    params=(
        Param(name="model.fc.weight", shape=("H", "G*K"), missing=Fate.MISSING_UNINITIALISED),
        *mla_params("model.layers.{i}", together=False),
        Param(name="model.layers.{i}.self_attn.q_proj.weight", shape=("NH*NOPE+NH*ROPE", "IN"), load=Load.ROWS, missing=Fate.MISSING_UNINITIALISED,
              when=equal("field:mla.q_lora_rank", None)),
        *SHARED_PARAMS,
    ),
    names=tuple(n for n in NAMES if n.text != "mask_hidden"),
    unknown=UNEXPECTED,
    guards=MAP_GUARDS[:2],
)

CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
GUARDS = (
    *rope_guards("transformers modeling_rope_utils.py"),
    Guard(when=every(absent("cfg:model_type"), absent("file:algorithm")), phase=Phase.CONFIG, source="transformers_utils/config.py:322",
          error="ValueError: Unrecognized model: config.json has no `model_type`"),
    Guard(when=every(present("file:algorithm"), Check("file:algorithm", "not in", ("eagle3", "peagle"))), phase=Phase.CONFIG, source=ALGOS,
          error="ValueError: this speculators algorithm is no EAGLE-3 drafter"),
    Guard(when=Check("field:serve.draft_tokens", "null"), phase=Phase.FLAGS, source=f"{CONFIG}:1478-1482",
          error="ValueError: A speculative model was provided, but `num_speculative_tokens` was not provided"),
    Guard(when=Check("field:serve.draft_tokens", "no multiple of", "=NPRED"), phase=Phase.FLAGS, source=f"{CONFIG}:1465-1476",
          error="ValueError: num_speculative_tokens must be divisible by n_predict"),
    Guard(when=equal("field:serve.method", "draft_model"), phase=Phase.FIRST_REQUEST, source=f"{CONFIG}:1141-1146",
          error="TypeError: forward() missing 1 required positional argument: 'hidden_states' (run as a plain draft model)"),
    Guard(when=unlike("field:hidden_act", "silu"), phase=Phase.BUILD, source=f"{BASE}:112-115", error="ValueError: Unsupported activation. Only silu is supported for now."),
    Guard(when=every(equal("field:fc.applied", True), unlike("=FED*TG", "=K*G")), phase=Phase.FIRST_REQUEST, source=f"{LLAMA}:398-422",
          error="RuntimeError: the states fed are not as wide as fc"),
    Guard(when=every(equal("field:fc.applied", False), unlike("=FED*TG", "=H")), phase=Phase.FIRST_REQUEST, source=f"{LLAMA}:270-273",
          error="AssertionError: hidden_states and input_embeds must have the same last dimension"),
    Guard(when=every(ON_CPU, equal("field:attention", "gqa"), present("field:head_dim"), Check("field:head_dim", "not in", CPU_HEAD_DIMS)), phase=Phase.FIRST_REQUEST,
          source="v1/attention/backends/cpu_attn.py:69", error="RuntimeError: Unsupported CPU attention configuration (head_dim)"),
    Guard(when=every(ON_CPU, equal("field:attention", "gqa"), present("target:kv_lora_rank")), phase=Phase.ATTACH, source="v1/attention/backends (CPU)",
          error="ValueError: No common block size for the target's latent and the drafter's plain attention on a CPU"),
    Guard(when=every(ON_CPU, equal(f"{SPEC}.rejection_sample_method", "synthetic")), phase=Phase.FIRST_REQUEST, source="v1/sample/rejection_sampler.py",
          error="AssertionError: Synthetic acceptance not supported with CPU sampling"),
)

FOUND: dict[str, Any] = {
    "from_model_type": {
        "deepseek_v3": "DeepSeekMTPModel", "deepseek_v32": "DeepseekV32MTPModel", "glm_moe_dsa": "DeepseekV32MTPModel", "qwen3_next": "Qwen3NextMTP",
    },
    "absent_error": "ValueError: No model architectures are specified",
    "unknown_error": "ValidationError: Model architectures {names} are not supported for now",
    "source": f"transformers_utils/configs/eagle.py:52-66; {CONFIG}:653-760; models/registry.py:1206",
}

VLLM = Profile(
    engine="vllm",
    spans=(("0.9.0", "0.32.0"),),
    runners=("v1", "v2"),
    symbols=SYMBOLS,
    source="vllm 0.32.0",
    architectures=(
        Architectures(prefix="Eagle3", kept_starts=("Eagle3",), until="0.10.1", **FOUND),
        Architectures(prefix="Eagle3", kept_starts=("Eagle3",), kept_ends=("Eagle3",), since="0.10.1", **FOUND),
    ),
    rope_parameters_since="0.12.0",
    capture=CAPTURE,
    serve=SERVE,
    speculators=Speculators(
        copies=(
            Copy(key="draft_vocab_size", default=None),
            Copy(key="target_hidden_size", only=Hit.NOT_NULL),
            Copy(key="norm_before_residual", default=True, since="0.10.1"),
            Copy(key="norm_before_fc", default=False, since="0.19.0"),
            Copy(key="fc_norm", default=False, since="0.25.0"),
            Copy(key="norm_output", default=False, since="0.25.0"),
            Copy(key="eagle_aux_hidden_state_layer_ids", only=Hit.TRUTHY, since="0.11.1"),
        ),
        architectures={"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"},
        algorithms=("eagle3", "peagle"),
        source=f"{ALGOS}:16-56",
    ),
    rules=(),
    classes=(LLAMA_CLASS, QWEN_CLASS, MLA_CLASS),
    guards=GUARDS,
    shared=(("model.embed_tokens.weight", "embedding.used"), ("lm_head.weight", "lm_head.used")),
)
