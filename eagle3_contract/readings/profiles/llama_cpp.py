"""llama.cpp, from its sources (not run). It has no releases that matter here: versions are the dates on which a change was merged."""

from __future__ import annotations

from eagle3_contract.readings.conditions import present
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import D2T, FROM_CONFIG, IDENTITY, OWN_EMBEDDING, TOO_NARROW, capture, found, llama
from eagle3_contract.readings.rules import Family, Fate, Key, Order, Profile, Rule, Turn, Unknown, default, fixed, not_known

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
        Rule(
            field="serve.draft_tokens", choices=(Key(path="flag:spec_draft_n_max"), default(3)), source="common/arg.cpp --spec-draft-n-max"
        ),
    ),
    class_defaults=False,
    shared=(("embed_tokens.weight", "embedding.used"),),
)
