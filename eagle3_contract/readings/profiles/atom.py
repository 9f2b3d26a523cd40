"""ROCm ATOM @ffdf3bb5 (its version is the date of the commit), from its source (not run)."""

from __future__ import annotations

from eagle3_contract.readings.conditions import Test as Check
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import NESTED, PRE_OR_POST, SILENT, TOO_NARROW, capture, found, llama
from eagle3_contract.readings.rules import Family, Fate, Hit, Key, Name, NameOp, Profile, Rule, Turn, default, fixed

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
                default(
                    False, "an eagle_config without use_aux_hidden_state counts as false", when=Check("cfg:eagle_config", "is", "dict")
                ),
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
                "wiring.positions_start": (
                    fixed(1, "positions are one ahead; a uniform offset changes nothing in plain rotary attention"),
                ),
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
