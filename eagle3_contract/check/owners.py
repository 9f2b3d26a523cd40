"""Whose embedding and head: the wiring and the tensor list say the same, and it is possible with what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.names import EMBEDDING, HEAD

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
RULES: Final = (OWNER, OVERRIDDEN)


def check_owners(ctx: CheckContext) -> Iterator[Check]:
    """Embedding, then head."""
    for name, field in ((EMBEDDING, "embedding"), (HEAD, "lm_head")):
        wiring = ctx.stated("wiring", field)
        if not wiring.known:
            yield OWNER.undecided(f"wiring.{field} is unknown: {wiring.reason}", where=ctx.place("wiring", field))
            continue
        spec = ctx.contract.tensors.get(name)
        used = ctx.value("tensors", name, "used") if spec is not None else None
        where = ctx.place("tensors", name, "used") if spec is not None else ctx.place("wiring", field)
        if spec is not None and used is not None and used != wiring.value:
            yield OWNER.failed(
                f"wiring.{field} says {wiring.value}, tensors says that {name} is {used}", expected=wiring.value, actual=used, where=where
            )
        elif wiring.value == "own" and spec is not None and not spec.stored:
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
