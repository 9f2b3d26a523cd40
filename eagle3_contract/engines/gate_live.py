"""What the running engine set and shares, against the contract: layer ids, embedding and head, the vocab map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from contract.findings import Check
from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.names import EMBEDDING, HEAD
from eagle3_contract.engines.gate_facts import LiveFacts
from eagle3_contract.engines.gate_rules import LAYER_IDS, LAYERS, SHARED, VOCAB
from eagle3_contract.model.states import FINAL_NORM, State, recipe_text
from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.versions import in_force, parse_version

_COPY: Final = "target_copy"


def check_live(ctx: CheckContext, facts: LiveFacts) -> Iterator[Check]:
    """Everything that a running engine shows besides the values of its parameters."""
    yield _layers(ctx, facts)
    yield _layer_ids(ctx, facts)
    yield _shared(ctx, facts, "embedding", EMBEDDING)
    yield _shared(ctx, facts, "lm_head", HEAD)
    yield _vocab(ctx, facts)


def _layers(ctx: CheckContext, facts: LiveFacts) -> Check:
    stated, where = ctx.stated("target", "layers"), ctx.place("target", "layers")
    if not stated.known:
        return LAYERS.undecided(f"the contract does not say how many layers the target has: {stated.reason}", required=False, where=where)
    if stated.value == facts.layers:
        return LAYERS.passed(f"the running target has {facts.layers} layers", expected=stated.value, actual=facts.layers)
    return LAYERS.failed(
        f"the running target has {facts.layers} layers, the contract's has {stated.value}",
        expected=stated.value,
        actual=facts.layers,
        where=where,
    )


def fed_by(facts: LiveFacts, architecture: Any = None) -> list[State]:
    """The states that the layer ids of the running target feed, in the order fed.

    Both engines walk the layers upwards and capture at a layer's entry, so that the numbers they hold are boundaries, fed in ascending
    order and once each (vLLM 0.32.0 models/interfaces.py:1569-1611; SGLang 0.5.23 models/llama.py:929-941). A number beyond the highest
    that the target's class answers to is never captured.
    """
    if not facts.layer_ids:
        return [FINAL_NORM]
    highest, version = facts.layers, parse_version(facts.version.partition("+")[0])
    profile = PROFILES.get(facts.engine)
    if profile is not None and version is not None:
        for family in in_force(profile.capture.families, version, facts.runner):
            if architecture in family.targets:
                highest = facts.layers if family.highest == "N" else facts.layers - 1
                break
    return sorted({i for i in facts.layer_ids if 0 <= i <= highest})


def _layer_ids(ctx: CheckContext, facts: LiveFacts) -> Check:
    stated, where = ctx.stated("hidden_states", "boundaries"), ctx.place("hidden_states", "boundaries")
    architectures = ctx.target.config.get("architectures") if ctx.target is not None else None
    fed = fed_by(facts, architectures[0] if isinstance(architectures, list) and architectures else None)
    says = f"the running target holds {recipe_text(facts.layer_ids or ())}: {facts.reference} feeds {recipe_text(fed)}"
    if not stated.known:
        return LAYER_IDS.undecided(f"{says}; the contract does not state the recipe: {stated.reason}", required=True, where=where)
    evidence = {"layer_ids": list(facts.layer_ids or ())}
    if list(stated.value) == fed:
        return LAYER_IDS.passed(f"{says}, as training did", expected=list(stated.value), actual=fed, evidence=evidence)
    return LAYER_IDS.failed(
        f"{says}; training fed {recipe_text(stated.value)}", expected=list(stated.value), actual=fed, where=where, evidence=evidence
    )


def _shared(ctx: CheckContext, facts: LiveFacts, place: str, name: str) -> Check:
    stated, where = ctx.stated("wiring", place), ctx.place("wiring", place)
    uses = facts.shared.get(place)
    if uses is None:
        return SHARED.undecided(f"{facts.reference} does not show whose {place} it uses", required=True, where=where)
    says = f"{facts.reference} uses {place} {uses}"
    if not stated.known:
        return SHARED.undecided(f"{says}; the contract does not say whose training used: {stated.reason}", required=True, where=where)
    if (reason := _same_table(ctx, place, name, stated.value, uses)) is not None:
        return SHARED.passed(f"{says}{reason}", expected=stated.value, actual=uses)
    return SHARED.failed(f"{says}; training used {stated.value}", expected=stated.value, actual=uses, where=where)


def _same_table(ctx: CheckContext, place: str, name: str, stated: str, uses: str) -> str | None:
    """Why two owners give the same values, as a clause; None if they do not, or nobody knows."""
    if stated == uses:
        return ", as training did"
    spec = ctx.contract.tensors.get(name)
    if {stated, uses} == {"own", "target"} and spec is not None and spec.stored and ctx.value("tensors", name, "content") == _COPY:
        return f"; the contract says that {name} is a copy of the target's"
    tied = ctx.target is not None and ctx.target.config.get("tie_word_embeddings") is True
    if place == "lm_head" and {stated, uses} == {"target", "tied_to_target"} and tied:
        return "; the target's head is its embedding"
    return None


def _vocab(ctx: CheckContext, facts: LiveFacts) -> Check:
    where = ctx.place("vocab", "map")
    wanted = _targets(ctx)
    if isinstance(wanted, str):
        return VOCAB.undecided(wanted, required=True, where=where)
    held = None if facts.target_ids is None else [int(i) for i in facts.target_ids.flatten().tolist()]
    engine = facts.reference
    if held is None:
        if wanted == list(range(len(wanted))):
            return VOCAB.passed(f"{engine} maps no ids; draft ids are target ids", expected="identity", actual="identity")
        return VOCAB.failed(
            f"{engine} maps no ids; training had a vocab map", expected=ctx.value("vocab", "map"), actual="none", where=where
        )
    if len(held) < len(wanted):
        return VOCAB.failed(f"{engine} maps {len(held)} draft ids of {len(wanted)}", expected=len(wanted), actual=len(held), where=where)
    wrong = [i for i, (ours, theirs) in enumerate(zip(wanted, held, strict=False)) if ours != theirs]
    if wrong:
        at = wrong[0]
        return VOCAB.failed(
            f"{engine} maps {len(wrong)} of {len(wanted)} draft ids to other tokens, the first is {at}: {held[at]} for {wanted[at]}",
            expected=wanted[at],
            actual=held[at],
            where=where,
            evidence={"different": len(wrong), "first": at},
        )
    return VOCAB.passed(f"{engine} maps {len(wanted)} draft ids as training did", actual=len(wanted))


def _targets(ctx: CheckContext) -> Sequence[int] | str:
    """The target token of each draft id by the contract and the checkpoint's d2t; a sentence where that cannot be told."""
    size, present, kind = ctx.value("vocab", "draft_size"), ctx.value("vocab", "present"), ctx.value("vocab", "map")
    if kind == VocabMap.IDENTITY and size is not None and present is not None:
        return list(range(size))
    if kind is None or present is None:
        return "the contract does not say what the vocab map is"
    d2t = ctx.drafter.d2t
    if d2t is None or d2t.dtype.kind not in "iu" or d2t.ndim != 1:
        return "the checkpoint holds no d2t that can be read"
    offset = range(len(d2t)) if kind == VocabMap.OFFSET else [0] * len(d2t)
    return [int(value) + base for value, base in zip(d2t.tolist(), offset, strict=True)]
