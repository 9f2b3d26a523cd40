"""SGLang 0.4.9 to 0.5.23. Lines are those of the 0.5.23 wheel (``srt/``) unless a version is named; the running 0.5.23 engine did what
this table says on 175 drafters. Releases in between were read as wheels: a change named for a release was absent in the one before it."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Not, absent, any_of, equal, every, less, one_of, present, truthy, unlike
from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import SYMBOLS, rope_guards, rope_type_guard
from eagle3_contract.readings.profiles.sglang_common import (
    AUTO_TREE,
    AUX,
    BASE,
    EAGLE3,
    FINAL,
    HAS_MTP,
    HOOK,
    IDS,
    LLAMA,
    LONGER_ALLOWED,
    UTILS,
    WORKER,
)
from eagle3_contract.readings.profiles.sglang_drafters import LLAMA_CLASS
from eagle3_contract.readings.profiles.sglang_mla import MLA_CLASS
from eagle3_contract.readings.profiles.sglang_targets import FAMILIES
from eagle3_contract.readings.rules import (
    Architectures,
    BadIds,
    Capture,
    Guard,
    Hit,
    Key,
    Origin,
    Phase,
    Profile,
    Rule,
    Turn,
    Value,
    default,
    fixed,
)

SERVE = (
    Rule(
        field="serve.algorithm",
        source=f"{AUX}:183",
        choices=(
            Key(path="flag:speculative_algorithm", hit=Hit.NOT_NULL, turn=Turn.UPPER),
            default(None, "no --speculative-algorithm: the drafter is not used", when=Check("flag:speculative_algorithm", "null")),
            default("EAGLE3", "assumed: no serving flags were given"),
        ),
    ),
    Rule(
        field="serve.steps",
        source=f"{HOOK}:1430-1470",
        choices=(
            Key(path="flag:speculative_num_steps", hit=Hit.NOT_NULL),
            default(5, "chosen for the target class", when=one_of("target:architecture", *AUTO_TREE)),
            default(3, "chosen for the target class"),
        ),
    ),
    Rule(
        field="serve.topk",
        source=f"{HOOK}:1430-1470",
        choices=(
            Key(path="flag:speculative_eagle_topk", hit=Hit.NOT_NULL),
            default(4, "chosen for the target class", when=one_of("target:architecture", *AUTO_TREE)),
            default(1, "chosen for the target class"),
        ),
    ),
    Rule(
        field="serve.draft_tokens",
        source=f"{HOOK}:1255-1266",
        choices=(
            Value(value="=STEPS+1", when=equal("field:serve.topk", 1), rule="with topk 1 the draft tokens are overwritten by steps + 1"),
            Key(path="flag:speculative_num_draft_tokens", hit=Hit.NOT_NULL),
            default(8, "chosen for the target class"),
        ),
    ),
    Rule(
        field="serve.context_length",
        source="configs/model_config.py:1295-1318",
        choices=(
            Key(path="flag:context_length", hit=Hit.NOT_NULL),
            Key(path="target:context_length"),
        ),
    ),
    Rule(
        field="serve.token_map",
        source=f"{WORKER}:325-330",
        choices=(
            fixed(None, "ignored for EAGLE3: the drafter's own d2t is used", when=EAGLE3),
            Key(path="flag:speculative_token_map"),
            default(None),
        ),
    ),
    Rule(
        field="serve.max_running_requests",
        source=f"{HOOK}:1086-1094",
        choices=(
            Key(path="flag:max_running_requests", hit=Hit.NOT_NULL),
            default(48, "set for speculative decoding"),
        ),
    ),
)

CAPTURE = Capture(
    enabled=Rule(
        field="capture.enabled",
        source=f"{AUX}:183-192",
        choices=(
            Value(value=False, origin=Origin.FLAG, when=Not(EAGLE3), rule=FINAL),
            Key(path="cfg:eagle_config.use_aux_hidden_state", turn=Turn.TRUTH, since="0.5.8"),
            default(True),
        ),
    ),
    ids=(
        Rule(
            field="capture.ids",
            source=f"{AUX}:185-196",
            text="nested ids only; a list at the top level is not read",
            choices=(
                Key(path=IDS),
                default(None, "no eagle_config, or no ids in it"),
            ),
        ),
    ),
    families=FAMILIES,
    not_a_list=BadIds.ERROR,
    not_numbers=BadIds.ERROR,
    empty_error="ValueError: too many values to unpack (no state is captured)",
)

ROPE_TYPES = ("default", "llama3", "linear", "dynamic", "yarn", "deepseek_yarn", "longrope", "proportional")
STEPS_UNSET = any_of(absent("flag:speculative_num_steps"), Check("flag:speculative_num_steps", "null"))
GUARDS = (
    *rope_guards("transformers modeling_rope_utils.py"),
    rope_type_guard("layers/rotary_embedding/factory.py:201-438", *ROPE_TYPES),
    Guard(
        when=absent("cfg:model_type"),
        phase=Phase.CONFIG,
        source="utils/hf_transformers",
        error="ValueError: Unrecognized model: config.json has no `model_type`",
    ),
    Guard(
        when=unlike("file:missing", []),
        phase=Phase.WEIGHTS,
        source="model_loader/weight_utils.py:784-805",
        error="RuntimeError: the index names shard files that are missing",
    ),
    Guard(
        when=every(Check("field:rope.context", "<", "=CTX"), Not(LONGER_ALLOWED)),
        phase=Phase.CONFIG,
        source="configs/model_config.py:1295-1318",
        error="ValueError: the target's context_length is greater than the drafter's max_position_embeddings",
    ),
    Guard(
        when=unlike("field:hidden_act", "silu"),
        phase=Phase.BUILD,
        source=f"{BASE}:114-117",
        error="ValueError: Unsupported activation. Only silu is supported for now.",
    ),
    Guard(
        when=every(truthy("cfg:tie_word_embeddings"), Check("cfg:draft_vocab_size", "null")),
        phase=Phase.BUILD,
        source=f"{LLAMA}:302-320",
        error="TypeError: Field 'vocab_size' expected int, got NoneType",
    ),
    Guard(
        when=every(equal("field:fc.applied", True), unlike("=FED*TG", "=K*G"), equal("field:capture.enabled", True)),
        phase=Phase.FIRST_REQUEST,
        source=f"{LLAMA}:238-247",
        error="RuntimeError: mat1 and mat2 shapes cannot be multiplied (the states fed are not as wide as fc)",
    ),
    Guard(
        when=every(equal("field:vocab.present", True), Check("file:d2t.rows", "<", "=DV")),
        phase=Phase.FIRST_REQUEST,
        source=f"{WORKER}:757, 897",
        error="IndexError: d2t is shorter than the draft vocabulary, and the drafter picks an id beyond it",
    ),
    Guard(
        when=every(equal("field:vocab.present", True), any_of(less("file:d2t.lowest", 0), Check("file:d2t.highest", ">", "=TV-1"))),
        phase=Phase.FIRST_REQUEST,
        source=f"{WORKER}:757, 897",
        error="IndexError: index out of range in self (a mapped id is outside the target's vocabulary)",
    ),
    Guard(
        when=every(STEPS_UNSET, any_of(present("flag:speculative_eagle_topk"), present("flag:speculative_num_draft_tokens"))),
        phase=Phase.FLAGS,
        source=f"{HOOK}:1159-1163",
        error="AssertionError: topk or draft tokens are set without steps",
    ),
    Guard(
        when=every(Not(STEPS_UNSET), absent("flag:speculative_eagle_topk")),
        phase=Phase.FLAGS,
        source=f"{HOOK}:1273-1277",
        error="TypeError: '>' not supported between instances of 'NoneType' and 'int' (steps without topk)",
    ),
    Guard(
        when=Check("field:serve.steps", "is", "float"),
        phase=Phase.ATTACH,
        source=f"{WORKER}",
        error="TypeError: 'float' object cannot be interpreted as an integer",
    ),
    Guard(when=equal("field:serve.topk", 0), phase=Phase.FIRST_REQUEST, source=f"{WORKER}", error="AssertionError (topk 0)"),
    Guard(
        when=every(Check("field:serve.topk", ">", 1), Check("field:serve.draft_tokens", ">", "=TOPK+STEPS*TOPK*TOPK-TOPK*TOPK+1")),
        phase=Phase.FIRST_REQUEST,
        source=f"{UTILS}:110",
        error="RuntimeError: selected index k out of range (more draft tokens than the tree has nodes)",
    ),
    Guard(
        when=every(Not(STEPS_UNSET), Check("=STEPS*TOPK", ">", "=CTX-1")),
        phase=Phase.FIRST_REQUEST,
        source="managers/tokenizer_manager.py:1335",
        error="ValueError: the input is longer than the model's context length (steps * topk tokens are reserved)",
    ),
    Guard(
        when=every(Check("flag:speculative_draft_model_path", "null"), Check("target:architecture", "not in", HAS_MTP)),
        phase=Phase.ATTACH,
        source=f"{WORKER}:360",
        error="AttributeError: the target's class has no attribute 'hot_token_id' (no draft path: the target is its own drafter)",
    ),
    Guard(
        when=every(truthy("flag:speculative_use_rejection_sampling"), unlike("=DV", "=TV")),
        phase=Phase.ATTACH,
        source=f"{WORKER}:260-274",
        error="ValueError: --speculative-use-rejection-sampling requires the draft and target to share one vocab",
    ),
)

SGLANG = Profile(
    engine="sglang",
    spans=(("0.4.9", "0.4.10"), ("0.5.0", "0.5.23")),
    runners=(),
    symbols=SYMBOLS,
    source="sglang 0.5.23",
    architectures=(
        Architectures(
            absent_error="TypeError: 'NoneType' object is not subscriptable (no architectures)",
            unknown_error="ValueError: Cannot find model module. {names} is not a registered model",
            source="models/registry.py:93; model_loader/utils.py:156",
        ),
    ),
    capture=CAPTURE,
    serve=SERVE,
    rules=(),
    classes=(LLAMA_CLASS, MLA_CLASS),
    guards=GUARDS,
    pads_on="cpu",
    rope_parameters_since="0.5.10",
    override_flag="json_model_override_args",
    shared=(("model.embed_tokens.weight", "embedding.used"), ("lm_head.weight", "lm_head.used")),
)
