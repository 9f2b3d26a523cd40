"""LMDeploy 0.16.0 @1263d5cd, from its source (not run)."""

from __future__ import annotations

from eagle3_contract.readings.conditions import truthy
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import D2T, OFFSET, OWN_EMBEDDING, TOO_NARROW, capture, found, llama
from eagle3_contract.readings.rules import Family, Fate, Hit, Key, Name, NameOp, Profile, Rule, Unknown, default, fixed

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
