"""Engines known from public sources only: TensorRT-LLM, llama.cpp, LMDeploy, tokenspeed, ROCm ATOM, mlx-vlm, and the authors' EAGLE code.

Nothing here was run. Where sources do not settle a field, it is unknown. llama.cpp, ATOM and EAGLE have no releases that matter here: their
versions are dates (of the change, or of the commit that was read).
"""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.conditions import absent, any_of, equal, every, present, truthy, unlike
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import NESTED, PRE_OR_POST, SKIPPED, TOP, UNSETTLED, llama
from eagle3_contract.readings.rules import (
    Architectures,
    BadIds,
    Capture,
    Copy,
    Family,
    Fate,
    Guard,
    Hit,
    Key,
    Name,
    NameOp,
    Order,
    Origin,
    Phase,
    Profile,
    Rule,
    Shift,
    Speculators,
    Turn,
    Unknown,
    Value,
    default,
    fixed,
    not_known,
)

ALWAYS = Rule(field="capture.enabled", choices=(fixed(True),), source="-")
D2T = (fixed(True, when=present("tensor:d2t")), default(False, "the file has no d2t"))
OFFSET = fixed("offset", when=equal("field:vocab.present", True))
IDENTITY = (OFFSET, default("identity", "draft ids are taken as target ids"))
OWN_EMBEDDING = (fixed("own", "the file has its own", when=present("tensor:embed_tokens.weight")), default("target", "the file has none"))
OWN_HEAD = (fixed("own", "the file has its own", when=present("tensor:lm_head.weight")), default("target", "the file has none"))
OTHER_WIDTH = every(present("cfg:target_hidden_size"), unlike("cfg:target_hidden_size", None), unlike("cfg:target_hidden_size", "=H"))
TARGETS_EMBEDDING = (fixed("own", "target_hidden_size differs from hidden_size", when=OTHER_WIDTH), fixed("target", "the target's"))
SILENT = Unknown(fate=Fate.DROPPED)
FROM_CONFIG = Key(path=TOP, hit=Hit.TRUTHY)
TOO_NARROW = Guard(
    when=every(equal("field:fc.applied", True), unlike("=FED*TG", "=K*G")),
    phase=Phase.FIRST_REQUEST,
    error="the states fed are not as wide as fc",
    source="-",
)


def capture(
    source: str,
    ids: tuple[Rule, ...],
    families: tuple[Family, ...],
    *,
    enabled: Rule = ALWAYS,
    order: Order = Order.ASCENDING,
    exactly: int | None = None,
) -> Capture:
    """A capture whose odd ids are taken as Python would take them."""
    return Capture(
        enabled=Rule(field=enabled.field, choices=enabled.choices, source=source),
        ids=ids,
        families=families,
        not_a_list=BadIds.ERROR,
        not_numbers=BadIds.ERROR,
        order=order,
        exactly=exactly,
    )


def found(source: str, error: str = "no class of this engine answers to {names}") -> tuple[Architectures, ...]:
    return (Architectures(absent_error="the config names no architecture", unknown_error=error, source=source),)


# --- TensorRT-LLM, PyTorch backend -------------------------------------------------------------------------------------------------
TRT = "_torch/speculative/eagle3.py; _torch/models/modeling_speculative.py @00679c66"
TRT_FLAG = "flag:eagle3_layers_to_capture"
TRT_FAMILIES = tuple(
    Family(
        name="flag ids: boundary = id + 1, -1 is the normed last state",
        targets=(),
        runners=(runner,),
        shifts=(Shift(by=1),),
        highest="N",
        final_norm_id=-1,
        final_norm_first=runner == "one_model",
        source="_torch/speculative/eagle3.py __post_init__ @f933a608, @001e6700",
    )
    for runner in ("one_model", "two_model")
)
TRT_CLASS = llama(
    "Eagle3DraftModel",
    ("LlamaForCausalLMEagle3", "EAGLE3LlamaForCausalLM", "Eagle3LlamaForCausalLM", "LlamaForCausalLM"),
    TRT,
    {
        "fc.count": (Key(path=TRT_FLAG, hit=Hit.TRUTHY, turn=Turn.LENGTH), default(3)),
        "fc.bias": (Key(path="cfg:bias", turn=Turn.TRUTH), default(False)),
        "norms.fc_norm": (Key(path="cfg:fc_norm", turn=Turn.TRUTH), default(False)),
        "norms.input_norm": (
            fixed(False, "fc_norm excludes it", when=truthy("cfg:fc_norm")),
            Key(path="cfg:eagle_config.norm_before_fc", turn=Turn.TRUTH),
            default(False),
        ),
        "wiring.feedback": (
            fixed("post_norm", "since #14988", when=any_of(truthy("cfg:eagle_config.return_hidden_post_norm"), truthy("cfg:norm_output"))),
            default("pre_norm"),
        ),
        "wiring.later_layer_norm": (UNSETTLED,),
        "attention.o_bias": (Key(path="cfg:attention_bias", turn=Turn.TRUTH), default(False)),
        "attention.qkv_bias": (Key(path="cfg:attention_bias", turn=Turn.TRUTH), default(False)),
        "mlp_bias": (Key(path="cfg:mlp_bias", turn=Turn.TRUTH), default(False)),
        "vocab.present": (fixed(True, when=unlike("=DV", "=V")), default(False)),
        "vocab.map": IDENTITY,
        "embedding.used": TARGETS_EMBEDDING,
        "lm_head.used": OWN_HEAD,
    },
    unknown=SILENT,
    missing=Fate.MISSING_UNINITIALISED,
    guards=(
        Guard(
            when=every(unlike("=DV", "=V"), absent("tensor:d2t")),
            phase=Phase.WEIGHTS,
            error="AssertionError: a reduced vocabulary needs d2t",
            source=TRT,
        ),
        Guard(
            when=every(absent(TRT_FLAG), Check("target:num_hidden_layers", "<", 6)),
            phase=Phase.ATTACH,
            error="ValueError: the default layers need more than five target layers",
            source=TRT,
        ),
    ),
)
TENSORRT_LLM = Profile(
    engine="tensorrt-llm",
    spans=(("1.3.0", "1.4.0"),),
    runners=("one_model", "two_model"),
    symbols=SYMBOLS,
    source="tensorrt-llm 1.4.0 (sources of 2026)",
    architectures=found("_torch/models/modeling_auto.py @01bffee1"),
    capture=capture(
        TRT,
        (
            Rule(
                field="capture.ids",
                choices=(Key(path=TRT_FLAG, hit=Hit.NOT_NULL), default(None)),
                source="llmapi/llm_args.py EagleDecodingConfig",
                text="the flag only: no ids of the config are read",
            ),
        ),
        TRT_FAMILIES,
    ),
    rules=(),
    classes=(TRT_CLASS,),
    guards=(),
    serve=(
        Rule(
            field="serve.steps",
            choices=(Key(path="flag:max_draft_len"), not_known("max_draft_len is required")),
            source="llmapi/llm_args.py EagleDecodingConfig",
        ),
    ),
    shared=(("embed_tokens.weight", "embedding.used"), ("lm_head.weight", "lm_head.used")),
)

# --- llama.cpp ------------------------------------------------------------------------------------------------------------------------
CPP = "conversion/llama.py @0274f0fc; src/models/eagle3.cpp @8002c4ce"
CPP_CLASS = llama(
    "eagle3",
    ("LlamaForCausalLMEagle3", "Eagle3Speculator", "Eagle3DraftModel", "Eagle3LlamaForCausalLM"),
    CPP,
    {
        "fc.applied": (fixed(True),),
        "norms.input_norm": (
            fixed(False, "not read before #25794", until="2026.7.16"),
            Key(path="cfg:norm_before_fc", turn=Turn.TRUTH),
            default(False),
        ),
        "wiring.norm_before_residual": (
            Key(path="cfg:norm_before_residual", turn=Turn.TRUTH),
            default(False, "also for a speculators config that leaves it out"),
        ),
        "vocab.present": D2T,
        "vocab.map": IDENTITY,
        "embedding.used": OWN_EMBEDDING,
        "lm_head.used": (
            fixed("own", "the file has its own", when=present("tensor:lm_head.weight")),
            not_known("required in some versions, the target's in others"),
        ),
    },
    unknown=Unknown(fate=Fate.ERROR, error="the converter does not know {name!r} (inferred)"),
    missing=Fate.ERROR,
    later={"Eagle3LlamaForCausalLM": "2026.6.24"},
)
LLAMA_CPP = Profile(
    engine="llama.cpp",
    spans=(("2026.6.1", "2026.8.31"),),
    runners=(),
    symbols=SYMBOLS,
    source="llama.cpp (sources of 2026-08)",
    architectures=found("conversion/llama.py @0274f0fc"),
    capture=capture(
        CPP,
        (
            Rule(field="capture.ids", choices=(fixed(None, "no key is read before #25794"),), until="2026.7.16", source="#18039"),
            Rule(field="capture.ids", choices=(FROM_CONFIG, default(None)), since="2026.7.16", source="#25794", text="top-level ids only"),
        ),
        (Family(name="ids are boundaries, in the order listed", targets=(), source="common/speculative.cpp draft-eagle3"),),
        order=Order.AS_LISTED,
        exactly=3,
    ),
    rules=(),
    classes=(CPP_CLASS,),
    guards=(TOO_NARROW,),
    serve=(
        Rule(field="serve.draft_tokens", choices=(Key(path="flag:spec_draft_n_max"), default(3)), source="common/arg.cpp --spec-draft-n-max"),
    ),
    class_defaults=False,
    shared=(("embed_tokens.weight", "embedding.used"),),
)

# --- LMDeploy -------------------------------------------------------------------------------------------------------------------------
DEPLOY = "lmdeploy/pytorch/models/llama_eagle3.py"
LMDEPLOY = Profile(
    engine="lmdeploy",
    spans=(("0.16.0", "0.16.0"),),
    runners=(),
    symbols=SYMBOLS,
    source="lmdeploy 0.16.0",
    architectures=found("lmdeploy/pytorch/configurations/llama.py:9-11; models/module_map.py:316"),
    capture=capture(
        DEPLOY,
        (
            Rule(
                field="capture.ids",
                choices=(fixed(None, "the target's own list, written over anything else"),),
                source="lmdeploy/pytorch/configurations/llama.py:24-28",
            ),
        ),
        (Family(name="fixed on the target", targets=("LlamaForCausalLM",), source="lmdeploy/pytorch/models/llama.py:262-267"),),
    ),
    rules=(),
    classes=(
        llama(
            "Eagle3LlamaForCausalLM",
            ("LlamaForCausalLM",),
            f"{DEPLOY}:97-144, 179, 291-307",
            {
                "vocab.draft_size": (Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL),),
                "vocab.present": D2T,
                "vocab.map": (OFFSET, default("zero", "every draft token becomes id 0")),
                "embedding.used": OWN_EMBEDDING,
                "lm_head.used": (
                    fixed("own", "left uninitialised: the loader skips a tied head", when=truthy("cfg:tie_word_embeddings")),
                    fixed("own"),
                ),
            },
            unknown=Unknown(fate=Fate.ERROR, error="KeyError: {name!r}"),
            missing=Fate.MISSING_UNINITIALISED,
            names=(
                Name(op=NameOp.DROP, text="t2d"),
                Name(op=NameOp.DROP, text="lm_head", when=truthy("cfg:tie_word_embeddings")),
            ),
        ),
    ),
    guards=(TOO_NARROW,),
    shared=(("embed_tokens.weight", "embedding.used"),),
)

# --- tokenspeed -----------------------------------------------------------------------------------------------------------------------
SPEED = "runtime/models/llama_eagle3.py"
SPEED_NESTED = every(Check("cfg:eagle_config", "is", "dict"))
TOKENSPEED = Profile(
    engine="tokenspeed",
    spans=(("0.1.0", "0.1.0"),),
    runners=(),
    symbols=SYMBOLS,
    source="tokenspeed 0.1.0",
    architectures=found("runtime/utils/hf_transformers_utils.py:382-398", "{names} becomes a NextN class that does not exist"),
    capture=capture(
        SPEED,
        (
            Rule(
                field="capture.ids",
                source="runtime/execution/factory.py:44-75, 95-102",
                choices=(
                    Key(path="flag:eagle3_layers_to_capture", hit=Hit.TRUTHY),
                    Key(path=NESTED, hit=Hit.TRUTHY, when=SPEED_NESTED),
                    default(None, "an eagle_config without ids hides the top-level list", when=SPEED_NESTED),
                    FROM_CONFIG,
                    default(None),
                ),
            ),
        ),
        (
            Family(
                name="Kimi-K3: ids are boundaries",
                targets=("KimiK3ForConditionalGeneration",),
                highest="N",
                source="runtime/models/kimi_k3.py:2580-2599",
            ),
            Family(
                name="DeepSeek: boundary = id + 1",
                targets=("DeepseekV3ForCausalLM",),
                shifts=(Shift(by=1),),
                source="runtime/models/deepseek_v3.py:1688-1695",
            ),
            Family(
                name="boundary = id + 1; boundary N has id N",
                targets=("LlamaForCausalLM", "Qwen3ForCausalLM"),
                shifts=(Shift(by=1),),
                highest="N",
                last="N+1",
                source="runtime/models/base/causal_lm.py:133-144; transformer_model.py:251-264",
            ),
        ),
    ),
    rules=(),
    classes=(
        llama(
            "LlamaForCausalLMEagle3",
            ("LlamaForCausalLMEagle3",),
            f"{SPEED}:462-509, 589, 621, 691",
            {
                "target_hidden_size": (fixed("@hidden_size", "target_hidden_size is not used"),),
                "fc.count": (Key(path=TOP, hit=Hit.TRUTHY, turn=Turn.LENGTH), default(3, "nested ids are not counted")),
                "norms.input_norm": (Key(path="cfg:norm_before_fc", turn=Turn.TRUTH), default(False)),
                "norms.fc_norm": (Key(path="cfg:fc_norm", turn=Turn.TRUTH), default(False)),
                "wiring.feedback": PRE_OR_POST,
                "vocab.present": D2T,
                "vocab.map": IDENTITY,
                "embedding.used": (fixed("target"),),
                "lm_head.used": (
                    fixed("tied_to_target", when=truthy("cfg:tie_word_embeddings")),
                    fixed("target", "no draft_vocab_size", when=any_of(absent("cfg:draft_vocab_size"), equal("cfg:draft_vocab_size", None))),
                    fixed("own"),
                ),
            },
            unknown=SILENT,
            missing=Fate.MISSING_UNINITIALISED,
            untied=True,
            guards=(
                Guard(when=unlike("field:layers", 1), phase=Phase.BUILD, error="ValueError: one layer only", source=f"{SPEED}:462-466"),
            ),
        ),
    ),
    guards=(
        TOO_NARROW,
        Guard(
            when=every(present("flag:speculative_eagle_topk"), unlike("flag:speculative_eagle_topk", 1)),
            phase=Phase.FLAGS,
            error="topk must be 1",
            source="runtime/utils/server_args.py:717",
        ),
    ),
    serve=(
        Rule(field="serve.steps", choices=(Key(path="flag:speculative_num_steps"), default(3)), source="runtime/utils/server_args.py:449"),
        Rule(field="serve.draft_tokens", choices=(fixed("=STEPS+1"),), source="runtime/utils/server_args.py:449"),
    ),
    shared=(("embed_tokens.weight", "embedding.used"), ("lm_head.weight", "lm_head.used")),
)

# --- ROCm ATOM ------------------------------------------------------------------------------------------------------------------------
ATOM_SOURCE = "atom/models/eagle3_llama.py:110-118, 313-357"
ATOM_SHORT = "the capture buffers and the captured states differ in number ({captured} of {wanted})"
ATOM = Profile(
    engine="atom",
    spans=(("2026.8.22", "2026.8.22"),),
    runners=(),
    symbols=SYMBOLS,
    source="atom @ffdf3bb5",
    architectures=found("atom/config.py:1187-1190"),
    capture=capture(
        ATOM_SOURCE,
        (Rule(field="capture.ids", choices=(Key(path=NESTED, hit=Hit.TRUTHY), default(None)), source="atom/config.py:1159-1176"),),
        (
            Family(
                name="ids are boundaries",
                targets=("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM", "MiniMaxM3SparseForCausalLM"),
                short_error=ATOM_SHORT,
                source="atom/models/deepseek_v2.py:3238-3244; gpt_oss.py:396-400",
            ),
            Family(
                name="ids are boundaries",
                targets=("LlamaForCausalLM",),
                short_error=ATOM_SHORT,
                embedding_error="TypeError: hidden + None (boundary 0: no residual yet)",
                source="atom/models/llama.py:426-429",
            ),
        ),
        enabled=Rule(
            field="capture.enabled",
            source="-",
            choices=(
                Key(path="cfg:eagle_config.use_aux_hidden_state", turn=Turn.TRUTH),
                default(False, "an eagle_config without use_aux_hidden_state counts as false", when=Check("cfg:eagle_config", "is", "dict")),
                default(True),
            ),
        ),
    ),
    rules=(),
    classes=(
        llama(
            "LlamaForCausalLMEagle3",
            ("LlamaForCausalLMEagle3",),
            ATOM_SOURCE,
            {
                "fc.count": (
                    Key(path="cfg:num_aux_hidden_states", hit=Hit.NOT_NULL),
                    Key(path=NESTED, hit=Hit.TRUTHY, turn=Turn.LENGTH),
                    default(3),
                ),
                "fc.applied": (fixed("@capture.enabled"),),
                "norms.fc_norm": (Key(path="cfg:fc_norm", turn=Turn.TRUTH), default(False)),
                "wiring.feedback": PRE_OR_POST,
                "wiring.positions_start": (fixed(1, "positions are one ahead; a uniform offset changes nothing in plain rotary attention"),),
                "rope.theta": (Key(path="cfg:rope_theta"), default(10000.0)),
                "rope.type": (fixed("default", "no scaling is read"),),
                "rope.scaling": (fixed({}, "no scaling is read"),),
                "vocab.draft_size": (fixed("@vocab.size", "a reduced vocabulary is not supported"),),
                "vocab.present": (fixed(False, "d2t is not supported"),),
                "vocab.map": (fixed("identity"),),
                "embedding.used": (fixed("own"),),
                "lm_head.used": (fixed("own"),),
            },
            unknown=SILENT,
            missing=Fate.MISSING_UNINITIALISED,
            names=(
                Name(op=NameOp.DROP, text="t2d"),
                Name(op=NameOp.DROP, text="d2t"),
                Name(op=NameOp.REPLACE_START, text="layers.0.", new="midlayer."),
            ),
        ),
    ),
    guards=(TOO_NARROW,),
)

# --- mlx-vlm --------------------------------------------------------------------------------------------------------------------------
MLX_SOURCE = "mlx_vlm/speculative/drafters/eagle3/eagle3.py:94-116, 180, 260-265"
MLX_VLM = Profile(
    engine="mlx-vlm",
    spans=(("0.7.10", "0.7.10"),),
    runners=(),
    symbols=SYMBOLS,
    source="mlx-vlm 0.7.10",
    architectures=found("mlx_vlm/speculative/drafters/eagle3/config.py", "{names}: only the speculators layout is settled"),
    capture=capture(
        MLX_SOURCE,
        (
            Rule(
                field="capture.ids",
                source="mlx_vlm/speculative/drafters/eagle3/config.py:46-49, 66-73",
                choices=(
                    Key(path="cfg:capture_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH),
                    Key(path="cfg:target_layer_ids", hit=Hit.TRUTHY, turn=Turn.ONE_AT_LEAST),
                    Key(path=TOP, hit=Hit.TRUTHY, turn=Turn.ONE_AT_LEAST),
                    not_known("derived from the drafter's own number of layers, not the target's"),
                ),
            ),
        ),
        (Family(name="boundary = id, 0 becomes 1", targets=(), highest="N", source="mlx_vlm/speculative/drafters/eagle3/config.py:66-73"),),
    ),
    rules=(),
    classes=(
        llama(
            "eagle3",
            ("eagle3",),
            MLX_SOURCE,
            {
                "fc.applied": (SKIPPED, fixed(True)),
                "norms.input_norm": (Key(path="cfg:norm_before_fc", turn=Turn.TRUTH), default(False)),
                "wiring.norm_before_residual": (Key(path="cfg:norm_before_residual", turn=Turn.TRUTH), default(False)),
                "wiring.positions_start": (fixed(1, "positions start at 1"),),
                "rope.type": (fixed("default", "scaling is ignored"),),
                "rope.scaling": (fixed({}, "scaling is ignored"),),
                "vocab.present": D2T,
                "vocab.map": IDENTITY,
                "embedding.used": (fixed("target", "shapes are equal", when=equal("=H", "=TG")), fixed("own")),
                "lm_head.used": (fixed("own"),),
            },
            unknown=Unknown(fate=Fate.ERROR, error="strict load: {name!r} is no parameter (inferred)"),
            missing=Fate.ERROR,
        ),
    ),
    guards=(TOO_NARROW,),
    speculators=Speculators(
        copies=(
            Copy(key="draft_vocab_size", only=Hit.NOT_NULL),
            Copy(key="target_hidden_size", only=Hit.NOT_NULL),
            Copy(key="norm_before_residual", default=False),
            Copy(key="norm_before_fc", default=False),
            Copy(key="eagle_aux_hidden_state_layer_ids", only=Hit.TRUTHY),
        ),
        architectures={"llama": "eagle3"},
        algorithms=("eagle3",),
        source="mlx_vlm/speculative/drafters/eagle3/config.py",
    ),
    shared=(("embed_tokens.weight", "embedding.used"),),
)

# --- the authors' code ----------------------------------------------------------------------------------------------------------------
EAGLE_SOURCE = "eagle/model/cnets.py:425, 488-534, 639, 712, 754"
EAGLE = Profile(
    engine="eagle",
    spans=(("2026.2.19", "2026.2.19"),),
    runners=(),
    symbols=SYMBOLS,
    source="eagle @cb7e0841",
    architectures=found("eagle/model/ea_model.py"),
    capture=capture(
        EAGLE_SOURCE,
        (Rule(field="capture.ids", choices=(fixed(None, "no key is read"),), source="eagle/model/modeling_llama_kv.py:1138"),),
        (
            Family(
                name="fixed in the target's code",
                targets=("LlamaForCausalLM", "Qwen3ForCausalLM"),
                source="eagle/model/modeling_llama_kv.py:1138; modeling_qwen3_kv.py:582",
            ),
        ),
    ),
    rules=(),
    classes=(
        llama(
            "Model",
            ("LlamaForCausalLMEagle3", "LlamaForCausalLM", "Eagle3LlamaForCausalLM"),
            EAGLE_SOURCE,
            {
                "vocab.draft_size": (Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL),),
                "vocab.present": (fixed(False, "deleted where the vocabularies are equal", when=equal("=DV", "=V")), *D2T),
                "vocab.map": IDENTITY,
                "embedding.used": OWN_EMBEDDING,
                "lm_head.used": (fixed("own"),),
            },
            unknown=SILENT,
            missing=Fate.MISSING_RANDOM,
            norms=Fate.MISSING_ONES,
        ),
    ),
    guards=(TOO_NARROW,),
    shared=(("embed_tokens.weight", "embedding.used"),),
)

# --- our own reference engine ---------------------------------------------------------------------------------------------------------
OURS = "this project: the capture by hooks takes recipe and wiring from the contract, not from config.json"
TRANSFORMERS = Profile(
    engine="transformers",
    spans=(("4.51.0", "5.24.0"),),
    runners=(),
    symbols=SYMBOLS,
    source=OURS,
    architectures=found(OURS, "{names}: transformers has no EAGLE-3 drafter; the contract's reference forward runs it"),
    capture=Capture(
        enabled=Rule(field="capture.enabled", choices=(Value(value=True, origin=Origin.HARD_CODED),), source=OURS),
        ids=(Rule(field="capture.ids", choices=(not_known("the contract says it"),), source=OURS),),
        families=(Family(name="the contract's boundaries", targets=(), highest="N", source=OURS),),
        not_a_list=BadIds.ERROR,
        not_numbers=BadIds.ERROR,
    ),
    rules=(),
    classes=(
        llama(
            "reference forward",
            ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Speculator", "Eagle3DraftModel", "Eagle3DeepseekV2ForCausalLM", "LlamaForCausalLM"),
            OURS,
            {
                name: (not_known("the contract says it"),)
                for name in (
                    "fc.count", "fc.applied", "fc.bias", "norms.input_norm", "norms.fc_norm", "wiring.norm_before_residual", "wiring.feedback",
                    "wiring.later_layer_norm", "rope.theta", "rope.type", "window", "vocab.present", "vocab.map", "embedding.used", "lm_head.used",
                )
            },
            unknown=SILENT,
            missing=Fate.DROPPED,
        ),
    ),
    guards=(),
)

OTHERS: tuple[Profile, ...] = (TENSORRT_LLM, LLAMA_CPP, LMDEPLOY, TOKENSPEED, ATOM, MLX_VLM, EAGLE, TRANSFORMERS)
