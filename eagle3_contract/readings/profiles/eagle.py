"""The EAGLE authors' own inference code @cb7e0841 (its version is the date of the commit), from its source (not run)."""

from __future__ import annotations

from eagle3_contract.readings.conditions import equal
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import D2T, IDENTITY, OWN_EMBEDDING, SILENT, TOO_NARROW, capture, found, llama
from eagle3_contract.readings.rules import Family, Fate, Hit, Key, Profile, Rule, fixed

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
