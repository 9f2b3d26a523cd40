"""The vocab map by value: what d2t says, whether it is what the contract says, and whether t2d agrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from contract.findings import Check, Rule, Severity, Where
from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.names import D2T, T2D

if TYPE_CHECKING:
    from eagle3_contract.vocab.classify import MapVerdict

_E, _V = Severity.ERROR, "vocab"

PRESENT: Final = Rule(
    id="vocab.map-present",
    title="The checkpoint carries a vocab map exactly when the contract says so",
    severity=_E,
    dimension=_V,
    why="Without d2t both engines take draft ids for target ids, silently (observed: 0 accepted); Automodel#2447 saved the map in a "
    "side file and lost all acceptance.",
    remedy="Write d2t into the checkpoint.",
)
DTYPE: Final = Rule(
    id="vocab.map-dtype",
    title="d2t is int64 and t2d is bool",
    severity=_E,
    dimension=_V,
    why="SGLang 0.5.23 takes float and int16 maps without a word (observed); float ids above 2^24 are no longer exact, in bfloat16 "
    "above 256.",
    remedy="Write d2t as int64 and t2d as bool.",
)
LENGTH: Final = Rule(
    id="vocab.map-length",
    title="d2t has an entry per draft id, t2d one per target id",
    severity=_E,
    dimension=_V,
    why="SGLang 0.5.23 accepts a short map and crashes when an argmax falls beyond it (observed); EAGLE's own trainer can write one "
    "that is too short (trainers facts, cnets.py:667-676).",
    remedy="Write the map again with the draft vocabulary of training.",
)
VALUES: Final = Rule(
    id="vocab.map-values",
    title="Every draft id stands for a target id of its own, inside the vocabulary",
    severity=_E,
    dimension=_V,
    why="No engine checks the range. Out of range is an IndexError on CPU and a device assert or garbage on CUDA, at the first draft; "
    "two draft ids for one token waste a row.",
    remedy="Write the map again from the trainer's token counts.",
)
MAP: Final = Rule(
    id="vocab.map-kind",
    title="d2t is the kind of map that the contract says",
    severity=_E,
    dimension=_V,
    why="Both engines compute target = i + d2t[i] (vLLM 0.32.0 llama_eagle3.py:385, SGLang 0.5.23 llama_eagle3.py:350). Absolute ids "
    "are added to i all the same: wrong tokens, silently, as long as they stay in range. A run of zeros at the start of an offset map "
    "is right, and so is an unsorted or partly negative one (ModelOpt).",
    remedy="Store offsets: d2t[i] = target id - i.",
)
T2D_AGREES: Final = Rule(
    id="vocab.t2d-agrees",
    title="t2d marks exactly the tokens of d2t",
    severity=_E,
    dimension=_V,
    why="Engines ignore t2d, training masks its targets with it: where they differ, the drafter was trained on other tokens than it can "
    "draft.",
    remedy="Write both from one selection of tokens.",
)
COVERAGE: Final = Rule(
    id="vocab.coverage",
    title="The draft vocabulary was chosen, not cut off",
    severity=Severity.WARNING,
    dimension=_V,
    why="With an identity map and fewer draft ids than target ids only the first ids can ever be drafted; vLLM makes the same of a "
    "missing d2t.",
    remedy="Check that training really drafted the first ids only.",
)
IDENTITY: Final = Rule(
    id="vocab.identity-stated",
    title="Of a draft vocabulary that is the first target ids somebody says that training had it so",
    severity=_E,
    dimension=_V,
    why="No known trainer selects the first ids: speculators, SpecForge, EAGLE and AngelSlim take the most frequent ones and write d2t. "
    "So a bare `identity` for a reduced vocabulary looks like a map that an export lost (Automodel#2447), which costs all acceptance.",
    remedy="Give the checkpoint its d2t; or, where training really drafted the first ids only, say so: "
    "map: {value: identity, evidence: declared, note: who knows}.",
)
RULES: Final = (PRESENT, DTYPE, LENGTH, VALUES, MAP, T2D_AGREES, COVERAGE, IDENTITY)


def check_vocab_map(ctx: CheckContext) -> Iterator[Check]:
    """Presence, dtype and length by the headers, then the values."""
    d2t, present = ctx.by_name.get(D2T), ctx.stated("vocab", "present")
    if not present.known:
        yield PRESENT.undecided(f"the contract does not say whether there is a d2t: {present.reason}", where=ctx.place("vocab", "present"))
    elif (d2t is not None) is present.value:
        yield PRESENT.passed("d2t is stored" if present.value else "no d2t is stored, as the contract says")
    elif d2t is None and not ctx.drafter.complete:
        yield PRESENT.undecided("no d2t among the tensors that could be read", where=ctx.place("vocab", "present"))
    else:
        yield PRESENT.failed(
            "the contract says that the checkpoint carries d2t, it does not"
            if d2t is None
            else "a d2t is stored, the contract says there is none",
            expected=present.value,
            actual=d2t is not None,
            where=ctx.place("vocab", "present"),
        )
    yield from _headers(ctx)
    if d2t is not None:
        yield from _values(ctx)
    yield from _coverage(ctx)


def _headers(ctx: CheckContext) -> Iterator[Check]:
    draft, target, padded = (ctx.value("vocab", k) for k in ("draft_size", "target_size", "target_padded_size"))
    for name, dtype, lengths in ((D2T, "int64", [draft]), (T2D, "bool", [target, padded])):
        tensor = ctx.by_name.get(name)
        if tensor is None:
            continue
        where = Where(file=tensor.file, tensor=tensor.name)
        if tensor.dtype == dtype:
            yield DTYPE.passed(f"{tensor.name} is {dtype}")
        else:
            yield DTYPE.failed(
                f"{tensor.name} is {tensor.dtype}; it is {dtype} everywhere", expected=dtype, actual=tensor.dtype, where=where
            )
        known = [n for n in lengths if n is not None]
        if not known:
            yield LENGTH.undecided(f"the contract does not say how long {tensor.name} is", where=ctx.place("vocab"))
        elif len(tensor.shape) == 1 and tensor.shape[0] in known:
            yield LENGTH.passed(f"{tensor.name} has {tensor.shape[0]} entries")
        else:
            yield LENGTH.failed(
                f"{tensor.name} is {list(tensor.shape)}, the vocabulary has {known[0]} entries",
                expected=known[0],
                actual=list(tensor.shape),
                where=where,
            )


def _values(ctx: CheckContext) -> Iterator[Check]:
    draft, target, stated = ctx.value("vocab", "draft_size"), ctx.value("vocab", "target_size"), ctx.stated("vocab", "map")
    tensor = ctx.by_name[D2T]
    where = Where(file=tensor.file, tensor=tensor.name)
    if ctx.drafter.d2t is None:
        yield VALUES.undecided("the values of d2t could not be read", where=where)
        return
    if draft is None or target is None:
        yield VALUES.undecided("the contract does not say how large the vocabularies are", where=ctx.place("vocab"))
        return
    from eagle3_contract.vocab.classify import classify_map  # numpy: only where there is a map

    verdict = classify_map(ctx.drafter.d2t, draft, target, ctx.drafter.t2d)
    kind = verdict.kind.value
    because = "; ".join((*verdict.reasons, *verdict.notes))
    if kind == "invalid":
        yield VALUES.failed(f"d2t is no map under any reading: {because}", where=where, evidence={"reasons": list(verdict.reasons)})
    else:
        yield VALUES.passed(
            f"d2t gives {draft} target ids of their own inside {target}" if kind != "ambiguous" else "d2t is in range and unique"
        )
        yield _kind(ctx, verdict, because, where)
    yield from _t2d(ctx, verdict)
    if not stated.known:
        yield MAP.undecided(f"the contract does not say what d2t means: {stated.reason}", where=ctx.place("vocab", "map"))


def _kind(ctx: CheckContext, verdict: MapVerdict, because: str, where: Where) -> Check:
    stated, kind = ctx.value("vocab", "map"), verdict.kind.value
    if kind == "ambiguous":
        return MAP.undecided(f"d2t could be an offset map or absolute ids: {because}", where=where)
    if stated is None:
        return MAP.passed(f"d2t is {kind}: {because}")
    zeros = kind == "identity" and stated == "offset"
    whole = ctx.value("vocab", "draft_size") == ctx.value("vocab", "target_size")
    if kind == stated or (zeros and whole):
        return MAP.passed(f"d2t is {kind}{' (an offset map of zeros)' if zeros else ''}: {because}", expected=stated, actual=kind)
    why = ""
    if kind == "absolute":
        why = ". SGLang 0.5.23 and vLLM 0.32.0 add i to it all the same: wrong tokens, or an index error beyond the vocabulary"
    elif zeros:
        why = ". A map of zeros for a reduced vocabulary is a buffer that was never written: only the first target ids could be drafted"
    return MAP.failed(f"d2t is {kind}, the contract says {stated}{why} ({because})", expected=stated, actual=kind, where=where)


def _t2d(ctx: CheckContext, verdict: MapVerdict) -> Iterator[Check]:
    tensor = ctx.by_name.get(T2D)
    if tensor is None:
        yield T2D_AGREES.skipped("no t2d is stored; no engine needs it")
        return
    where = Where(file=tensor.file, tensor=tensor.name)
    if ctx.drafter.t2d is None:
        yield T2D_AGREES.undecided("the values of t2d could not be read", where=where)
    elif verdict.t2d_problems:
        yield T2D_AGREES.failed("; ".join(verdict.t2d_problems), where=where)
    elif verdict.targets is not None:
        yield T2D_AGREES.passed(f"t2d marks exactly the {len(verdict.targets)} tokens of d2t")


def _coverage(ctx: CheckContext) -> Iterator[Check]:
    draft, target, stated = ctx.value("vocab", "draft_size"), ctx.value("vocab", "target_size"), ctx.value("vocab", "map")
    if draft is None or target is None or stated is None:
        return
    share = f"{draft} of {target} target ids ({draft / target:.1%}) can be drafted"
    if stated != "identity" or draft >= target:
        yield COVERAGE.passed(share)
        return
    where = ctx.place("vocab", "map")
    yield COVERAGE.failed(f"{share}: the first ones, for the map is the identity", where=where)
    if ctx.stated("vocab", "map").evidence in ("declared", "measured"):
        yield IDENTITY.passed("the contract says on whose word the draft vocabulary is the first target ids")
    else:
        yield IDENTITY.undecided(
            f"the map is the identity for {draft} of {target} ids, and nothing says that training had it so",
            where=where,
            fix=IDENTITY.remedy,
        )
