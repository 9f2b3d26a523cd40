"""vLLM 0.9.0 to 0.32.0, both model runners. Lines are those of the 0.32.0 wheel (``vllm/``) unless a version is named. The running
0.32.0 engine (V1 runner) did what this table says on 165 drafters; the V2 runner needs Triton and is known from the source only."""

from __future__ import annotations

from typing import Any

from eagle3_contract.readings.conditions import Not, absent, equal, every, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import SYMBOLS, rope_guards, rope_type_guard
from eagle3_contract.readings.profiles.vllm_drafters import LLAMA_CLASS, MLA_CLASS, QWEN_CLASS
from eagle3_contract.readings.profiles.vllm_rows import (
    ALGOS,
    BASE,
    CONFIG,
    EAGLE1,
    LLAMA,
    NESTED,
    ON_CPU,
    PROPOSER,
    SERVED,
    SPEC,
    TOP,
    V1,
    V2,
)
from eagle3_contract.readings.profiles.vllm_targets import FAMILIES
from eagle3_contract.readings.rules import (
    Architectures,
    BadIds,
    Capture,
    Copy,
    Guard,
    Hit,
    Key,
    Origin,
    Phase,
    Profile,
    Rule,
    Speculators,
    Turn,
    Value,
    default,
    fixed,
    not_known,
)

SERVE = (
    Rule(
        field="serve.method",
        source=f"{CONFIG}:1139-1300",
        choices=(
            Key(path=f"{SPEC}.method", hit=Hit.NOT_NULL),
            default("eagle3", "from the speculators config", when=SERVED),
            default(None, "no speculative_config: the drafter is not used", when=Check(SPEC, "null")),
            default("eagle3", "assumed: no serving flags were given", when=absent(SPEC)),
            default("eagle", "guessed from the folder's name", when=Check("file:name", "contains", "eagle-")),
            default("eagle3", "guessed from the folder's name", when=Check("file:name", "contains", "eagle3")),
            default("draft_model", "the folder's name says neither eagle- nor eagle3"),
        ),
    ),
    Rule(
        field="serve.draft_tokens",
        source=f"{CONFIG}:1455-1482; transformers_utils/configs/speculators/base.py",
        choices=(
            Key(path=f"{SPEC}.num_speculative_tokens", hit=Hit.NOT_NULL),
            Key(path="cfg:n_predict", hit=Hit.NOT_NULL),
            Key(path="file:tokens", hit=Hit.NOT_NULL, when=SERVED),
            default(None, "not given", when=present(SPEC)),
            not_known("no serving flags were given"),
        ),
    ),
    Rule(
        field="serve.max_model_len",
        source="config/model.py",
        choices=(Key(path="flag:max_model_len", hit=Hit.NOT_NULL), Key(path="target:context_length")),
    ),
    Rule(
        field="serve.parallel_drafting",
        source=f"{LLAMA}:357",
        choices=(Key(path=f"{SPEC}.parallel_drafting", turn=Turn.TRUTH), default(False)),
    ),
)

WITH_EAGLE_CONFIG = every(Check("cfg:eagle_config", "is", "dict"), truthy("cfg:eagle_config"))
CAPTURE = Capture(
    enabled=Rule(
        field="capture.enabled",
        source=f"{PROPOSER}:1672-1685; {LLAMA}:161-166",
        choices=(
            Value(
                value=False,
                origin=Origin.FLAG,
                when=EAGLE1,
                rule="method is eagle, not eagle3: the target's normed last state is fed, as for EAGLE-1",
            ),
            Key(path="cfg:eagle_config.use_aux_hidden_state", turn=Turn.TRUTH, since="0.12.0"),
            default(True),
        ),
    ),
    ids=(
        Rule(
            field="capture.ids",
            until="0.11.1",
            runners=("v1",),
            source="v1/worker/gpu_model_runner.py (0.10.1)",
            choices=(fixed(None, "no key is read before 0.11.1"),),
        ),
        Rule(
            field="capture.ids",
            since="0.11.1",
            until="0.20.0",
            runners=("v1",),
            source=f"{V1}:3410-3413 (0.11.1)",
            text="top-level ids only",
            choices=(Key(path=TOP, hit=Hit.TRUTHY), default(None)),
        ),
        Rule(
            field="capture.ids",
            since="0.20.0",
            until="0.22.0",
            runners=("v1",),
            source=f"{V1} (0.20.0)",
            text="top-level ids only",
            choices=(Key(path=TOP, hit=Hit.TRUTHY), Key(path="cfg:dflash_config.target_layer_ids", hit=Hit.TRUTHY), default(None)),
        ),
        Rule(
            field="capture.ids",
            since="0.22.0",
            runners=("v1",),
            source=f"{V1}:5268-5285",
            text="top-level ids, then nested ones",
            choices=(
                Key(path=TOP, hit=Hit.TRUTHY),
                Key(path=NESTED, hit=Hit.NOT_NULL, when=WITH_EAGLE_CONFIG),
                default(None, "an eagle_config without ids hides dflash_config", when=WITH_EAGLE_CONFIG),
                Key(path="cfg:dflash_config.target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH),
                default(None),
            ),
        ),
        Rule(
            field="capture.ids",
            since="0.17.0",
            until="0.24.0",
            runners=("v2",),
            source=f"{V2}:35-43 (0.17.0)",
            text="top-level ids only: nested eagle_aux_hidden_state_layer_ids are not read by this runner",
            choices=(Key(path=TOP, hit=Hit.TRUTHY), default(None)),
        ),
        Rule(
            field="capture.ids",
            since="0.24.0",
            runners=("v2",),
            source=f"{V2}:100-140",
            text="nested eagle_aux_hidden_state_layer_ids are not read by this runner",
            choices=(
                Key(path=TOP, hit=Hit.TRUTHY),
                Key(path="cfg:dflash_config.target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH),
                Key(path="cfg:dspark_target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH, since="0.25.0"),
                Key(path="cfg:target_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH, since="0.25.0"),
                Key(path="cfg:dflash_config.layer_ids", hit=Hit.TRUTHY, since="0.27.0"),
                Key(path="cfg:eagle_config.layer_ids", hit=Hit.TRUTHY, since="0.27.0"),
                default(None),
            ),
        ),
    ),
    families=FAMILIES,
    not_a_list=BadIds.DEFAULT,
    not_numbers=BadIds.DEFAULT,
    empty_error="ValueError: too many values to unpack (no state is captured)",
)

ROPE_TYPES = (
    *("default", "llama3", "linear", "dynamic", "ntk", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "longrope"),
    *("proportional", "mllama4", "bailing_mrope", "openpangu"),
)
CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
GUARDS = (
    *rope_guards("transformers modeling_rope_utils.py", "su"),
    rope_type_guard("model_executor/layers/rotary_embedding/__init__.py:88-350", *ROPE_TYPES),
    Guard(
        when=every(
            Check("cfg:rope_parameters.type", "!=", "@cfg:rope_parameters.rope_type"),
            present("cfg:rope_parameters.type"),
            Not(every(equal("cfg:rope_parameters.type", "su"), equal("cfg:rope_parameters.rope_type", "longrope"))),
            Not(every(equal("cfg:rope_parameters.type", "mrope"), equal("cfg:rope_parameters.rope_type", "default"))),
        ),
        phase=Phase.CONFIG,
        source="transformers_utils/config.py patch_legacy_rope_type",
        error="ValueError: Found conflicts between 'rope_type' and 'type'",
    ),
    Guard(
        when=every(absent("cfg:model_type"), absent("file:algorithm")),
        phase=Phase.CONFIG,
        source="transformers_utils/config.py:322",
        error="ValueError: Unrecognized model: config.json has no `model_type`",
    ),
    Guard(
        when=every(present("file:algorithm"), Check("file:algorithm", "not in", ("eagle3", "peagle"))),
        phase=Phase.CONFIG,
        source=ALGOS,
        error="ValueError: this speculators algorithm is no EAGLE-3 drafter",
    ),
    Guard(
        when=every(Check("field:serve.draft_tokens", "null"), unlike("field:serve.method", None)),
        phase=Phase.FLAGS,
        source=f"{CONFIG}:1478-1482",
        error="ValueError: A speculative model was provided, but `num_speculative_tokens` was not provided",
    ),
    Guard(
        when=Check("field:serve.draft_tokens", "no multiple of", "=NPRED"),
        phase=Phase.FLAGS,
        source=f"{CONFIG}:1465-1476",
        error="ValueError: num_speculative_tokens must be divisible by n_predict",
    ),
    Guard(
        when=equal("field:serve.method", "draft_model"),
        phase=Phase.FIRST_REQUEST,
        source=f"{CONFIG}:1141-1146",
        error="TypeError: forward() missing 1 required positional argument: 'hidden_states' (run as a plain draft model)",
    ),
    Guard(
        when=unlike("field:hidden_act", "silu"),
        phase=Phase.BUILD,
        source=f"{BASE}:112-115",
        error="ValueError: Unsupported activation. Only silu is supported for now.",
    ),
    Guard(
        when=every(equal("field:fc.applied", True), unlike("=FED*TG", "=K*G")),
        phase=Phase.FIRST_REQUEST,
        source=f"{LLAMA}:398-422",
        error="RuntimeError: the states fed are not as wide as fc",
    ),
    Guard(
        when=every(equal("field:fc.applied", False), unlike("=FED*TG", "=H")),
        phase=Phase.FIRST_REQUEST,
        source=f"{LLAMA}:270-273",
        error="AssertionError: hidden_states and input_embeds must have the same last dimension",
    ),
    Guard(
        when=equal("field:attention.causal", False),
        runners=("v1",),
        phase=Phase.ATTACH,
        source=f"{PROPOSER}:1697-1707",
        error="AssertionError: All drafting layers should belong to the same kv cache group (is_causal is false: no key is cached)",
    ),
    Guard(
        when=every(ON_CPU, equal("field:attention", "gqa"), present("field:head_dim"), Check("field:head_dim", "not in", CPU_HEAD_DIMS)),
        phase=Phase.FIRST_REQUEST,
        source="v1/attention/backends/cpu_attn.py:69",
        error="RuntimeError: Unsupported CPU attention configuration (head_dim)",
    ),
    Guard(
        when=every(ON_CPU, equal("field:attention", "gqa"), present("target:kv_lora_rank")),
        phase=Phase.ATTACH,
        source="v1/attention/backends (CPU)",
        error="ValueError: No common block size for the target's latent and the drafter's plain attention on a CPU",
    ),
    Guard(
        when=every(ON_CPU, equal(f"{SPEC}.rejection_sample_method", "synthetic")),
        phase=Phase.FIRST_REQUEST,
        source="v1/sample/rejection_sampler.py",
        error="AssertionError: Synthetic acceptance not supported with CPU sampling",
    ),
)

FOUND: dict[str, Any] = {
    "from_model_type": {
        "deepseek_v3": "DeepSeekMTPModel",
        "deepseek_v32": "DeepseekV32MTPModel",
        "glm_moe_dsa": "DeepseekV32MTPModel",
        "qwen3_next": "Qwen3NextMTP",
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
        Architectures(when=EAGLE1, prefix="Eagle", kept_starts=("Eagle",), **FOUND),
        Architectures(prefix="Eagle3", kept_starts=("Eagle3",), until="0.10.1", **FOUND),
        Architectures(prefix="Eagle3", kept_starts=("Eagle3",), kept_ends=("Eagle3",), since="0.10.1", **FOUND),
    ),
    rope_parameters_since="0.12.0",
    rotary_keys=("rotary_pct", "rotary_emb_fraction"),  # transformers_utils/config.py:629-652 patch_rope_parameters
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
