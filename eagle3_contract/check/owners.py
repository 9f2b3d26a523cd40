"""Whose tensor is used in each place: the wiring and the tensor list say the same, and it is possible with what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.needed import Needed, needed
from eagle3_contract.drafter.names import D2T, EMBEDDING, HEAD, T2D, canonical_name
from eagle3_contract.model.names import canonical

OWNER: Final = Rule(
    id="tensors.owner",
    title="wiring and tensors name the same owner of embedding and head, and an own one is stored",
    severity=Severity.ERROR,
    dimension="weights",
    why="SGLang always takes the target's embedding unless the widths differ, vLLM keeps the drafter's where it differs from the "
    "target's (SGLang eagle_worker_v2.py:363); lm_head is borrowed by different rules in each. Which one training used is nowhere in "
    "the checkpoint.",
    remedy="Make wiring.embedding / wiring.lm_head and tensors.<name>.used agree.",
)
OVERRIDDEN: Final = Rule(
    id="tensors.own-embedding-served",
    title="The drafter's own embedding is the target's, so that it does not matter which one is served",
    severity=Severity.WARNING,
    dimension="weights",
    why="SGLang 0.5.23 loads an own embed_tokens and throws it away silently; vLLM 0.32.0 compares it with the target's. A drafter with "
    "a trained or random embedding behaves differently on each (TorchSpec#38).",
    remedy="Train on the target's embedding, or serve with vLLM.",
)
USED: Final = Rule(
    id="tensors.used",
    title="tensors says of every weight that training used it where the wiring does, and what kind of values it holds",
    severity=Severity.ERROR,
    dimension="weights",
    why="`used` and `content` tell an export what may be left out, and a reader whose weights ran. An fc that is said to be the target's, "
    "or a tensor that is said to be used and that no drafter has, describe another drafter than the wiring does.",
    remedy="Say `used: own` for what the wiring runs on, `not_used` for what lies there unused; `content: map` is for d2t and t2d, the "
    "target's rows are for embedding and head.",
)
RULES: Final = (OWNER, OVERRIDDEN, USED)
_MAPS: Final = (D2T, T2D)


def check_owners(ctx: CheckContext) -> Iterator[Check]:
    """Embedding, head, then every other tensor of the list."""
    yield from _embedding_and_head(ctx)
    need, clean = needed(ctx), True
    for name in ctx.contract.tensors:
        for part, wrong in (("used", _wrong_use(ctx, need, name)), ("content", _wrong_content(ctx, name))):
            if wrong is not None:
                clean = False
                yield USED.failed(wrong, actual=ctx.value("tensors", name, part), where=ctx.place("tensors", name, part))
    if clean:
        yield USED.passed(f"{len(ctx.contract.tensors)} entries of tensors say what the wiring says")


def _wrong_use(ctx: CheckContext, need: Needed, name: str) -> str | None:
    """What is wrong with ``used`` of a tensor that is neither embedding nor head."""
    used, stored, plain = ctx.value("tensors", name, "used"), ctx.contract.tensors[name].stored, canonical(name)
    if used is None or plain in (EMBEDDING, HEAD):
        return None
    if used not in ("own", "not_used"):
        return f"tensors says that {name} is {used}; only embedding and head can be the target's"
    if used == "own" and not stored:
        return f"tensors says that training used the drafter's own {name}, and that it is not stored"
    if used == "not_used" and ((plain in need.shapes and not need.undecided) or (plain == D2T and ctx.value("vocab", "present") is True)):
        return f"tensors says that training did not use {name}; the wiring does"
    if used == "own" and canonical_name(name) is None:
        return f"tensors says that training used {name}; no wiring of an EAGLE-3 drafter does"
    return None


def _wrong_content(ctx: CheckContext, name: str) -> str | None:
    content, plain = ctx.value("tensors", name, "content"), canonical(name)
    if content is None:
        return None
    if (content == "map") != (plain in _MAPS):
        return f"tensors says that {name} holds {content}; {'it is a map' if plain in _MAPS else 'only d2t and t2d are maps'}"
    if content in ("target_copy", "target_rows") and plain not in (EMBEDDING, HEAD):
        return f"tensors says that {name} holds {content}; the target has no such rows"
    return None


def _embedding_and_head(ctx: CheckContext) -> Iterator[Check]:
    for name, field in ((EMBEDDING, "embedding"), (HEAD, "lm_head")):
        wiring = ctx.stated("wiring", field)
        if not wiring.known:
            yield OWNER.undecided(f"wiring.{field} is unknown: {wiring.reason}", where=ctx.place("wiring", field))
            continue
        spec = ctx.contract.tensors.get(name)
        used = ctx.value("tensors", name, "used") if spec is not None else None
        where = ctx.place("tensors", name, "used") if spec is not None else ctx.place("wiring", field)
        if spec is None:
            yield OWNER.failed(
                f"wiring.{field} says {wiring.value}, tensors has no entry for {name}: it is listed too where it is not stored",
                expected=wiring.value,
                where=ctx.place("tensors"),
            )
        elif used is not None and used != wiring.value:
            yield OWNER.failed(
                f"wiring.{field} says {wiring.value}, tensors says that {name} is {used}", expected=wiring.value, actual=used, where=where
            )
        elif wiring.value == "own" and not spec.stored:
            yield OWNER.failed(f"training used the drafter's own {name}, but tensors says it is not stored", expected="stored", where=where)
        else:
            yield OWNER.passed(f"{name}: training used {wiring.value}", expected=wiring.value, actual=used)
    if ctx.value("wiring", "embedding") == "own" and EMBEDDING in ctx.contract.tensors:
        content = ctx.value("tensors", EMBEDDING, "content")
        if content == "target_copy":
            yield OVERRIDDEN.passed("the own embedding is a copy of the target's: both engines serve the same values")
        elif ctx.value("target", "hidden_size") != ctx.value("wiring", "hidden_size"):
            yield OVERRIDDEN.skipped("the target's embedding has another width; engines keep the drafter's own")
        else:
            yield OVERRIDDEN.failed(
                f"the drafter's own embedding is {content or 'of unknown content'}; SGLang 0.5.23 replaces it by the target's",
                where=ctx.place("tensors", EMBEDDING, "content"),
            )
