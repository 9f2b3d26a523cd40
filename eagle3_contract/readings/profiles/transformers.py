"""transformers with this project's own forward: recipe and wiring come from the contract, so that config.json decides nothing."""

from __future__ import annotations

from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import SILENT, found, llama
from eagle3_contract.readings.rules import BadIds, Capture, Family, Fate, Origin, Profile, Rule, Value, not_known

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
            (
                "LlamaForCausalLMEagle3",
                "Eagle3LlamaForCausalLM",
                "Eagle3Speculator",
                "Eagle3DraftModel",
                "Eagle3DeepseekV2ForCausalLM",
                "LlamaForCausalLM",
            ),
            OURS,
            {
                name: (not_known("the contract says it"),)
                for name in (
                    "fc.count",
                    "fc.applied",
                    "fc.bias",
                    "norms.input_norm",
                    "norms.fc_norm",
                    "wiring.norm_before_residual",
                    "wiring.feedback",
                    "wiring.later_layer_norm",
                    "rope.theta",
                    "rope.type",
                    "window",
                    "vocab.present",
                    "vocab.map",
                    "embedding.used",
                    "lm_head.used",
                )
            },
            unknown=SILENT,
            missing=Fate.DROPPED,
        ),
    ),
    guards=(),
)
