"""The accepted length in the terms in which a contract states it, over the requests of one server, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contract.statement import fact
from eagle3_contract.model.spec import Acceptance
from eagle3_contract.verify.bootstrap import resampled
from eagle3_contract.verify.engine_runs.definitions import DEFINITION, Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a figure is made: ``acceptance.aggregation``, ``counts_bonus`` and ``counts_prefill`` of a contract."""

    pooled: bool = True
    bonus: bool = True
    prefill: bool = False

    def __str__(self) -> str:
        if self == Terms():
            return DEFINITION
        over = "pooled over requests" if self.pooled else "the mean of the requests' own figures"
        counted, not_counted = {True: "counted", False: "not counted"}[self.bonus], {True: "counted", False: "not"}[self.prefill]
        return f"tokens per verify step, {over}; the bonus token {counted}, the prefill's token {not_counted}"


def terms_of(stated: Acceptance) -> Terms | str:
    """The terms of a contract's figures, or which of them is unknown and why."""
    found = {name: fact(getattr(stated, name)) for name in ("aggregation", "counts_bonus", "counts_prefill")}
    for name, one in found.items():
        if not one.known:
            return f"acceptance.{name} is unknown ({one.reason})"
    return Terms(
        pooled=found["aggregation"].value == "pooled", bonus=bool(found["counts_bonus"].value), prefill=bool(found["counts_prefill"].value)
    )


def length(parts: Sequence[Counts], terms: Terms = Terms()) -> float:
    """The accepted length over requests. Each request has one token of its prefill; one without a verify step has no length of its own.

    NaN where nothing was verified.
    """
    own = [p for p in parts if p.rounds]
    if not own:
        return math.nan
    if terms.pooled:
        return _length(sum(p.rounds for p in own), sum(p.accepted for p in own), len(own), terms)
    return sum(_length(p.rounds, p.accepted, 1, terms) for p in own) / len(own)


def interval(parts: Sequence[Counts], terms: Terms = Terms()) -> tuple[float, float]:
    """The interval of ``length`` over whole requests."""
    return resampled([p for p in parts if p.rounds], lambda chosen: length(chosen, terms))


def _length(rounds: int, accepted: int, requests: int, terms: Terms) -> float:
    return (int(terms.bonus) * rounds + accepted + int(terms.prefill) * requests) / rounds
