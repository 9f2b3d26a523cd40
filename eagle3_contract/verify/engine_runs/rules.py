"""The rules about runs of a real engine: its noise, its tokens, its acceptance. No torch."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity


def _rule(
    id_: str, title: str, why: str, remedy: str, dimension: str, *, depth: Depth | None = Depth.VERIFY, severity: Severity = Severity.ERROR
) -> Rule:
    return Rule(id=id_, title=title, severity=severity, dimension=dimension, why=why, remedy=remedy, depth=depth)


COUNTERS: Final = _rule(
    "acceptance.counters",
    "Counters that are compared belong together",
    "Acceptance is a ratio of counters. If one shrank between two readings, or more drafts were accepted than proposed, they come from "
    "two processes, and every figure made of them is wrong.",
    "Read both from one server process, without a restart in between.",
    "metric",
)
RULES: Final = (COUNTERS,)
