"""TensorRT-LLM, PyTorch backend, from its sources of 2026 (not run; the newest ``eagle3.py`` was not read)."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.conditions import absent, any_of, every, truthy, unlike
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import IDENTITY, OWN_HEAD, SILENT, TARGETS_EMBEDDING, UNSETTLED, capture, found, llama
from eagle3_contract.readings.rules import Family, Fate, Guard, Hit, Key, Phase, Profile, Rule, Shift, Turn, default, fixed, not_known

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
