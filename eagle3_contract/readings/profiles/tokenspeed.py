"""tokenspeed 0.1.0 @f4d8ec6e, from its source (not run): Llama drafters; its MLA drafter is not in this table."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.conditions import absent, any_of, equal, every, present, truthy, unlike
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import (
    D2T,
    FROM_CONFIG,
    IDENTITY,
    NESTED,
    PRE_OR_POST,
    SILENT,
    TOO_NARROW,
    TOP,
    capture,
    found,
    llama,
)
from eagle3_contract.readings.rules import Family, Fate, Guard, Hit, Key, Phase, Profile, Rule, Shift, Turn, default, fixed

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
                    fixed(
                        "target", "no draft_vocab_size", when=any_of(absent("cfg:draft_vocab_size"), equal("cfg:draft_vocab_size", None))
                    ),
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
