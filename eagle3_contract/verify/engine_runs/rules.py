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
ROWS_COVERED: Final = _rule(
    "capture.rows-covered",
    "The capture holds every row of the samples",
    "An engine that is given a sample's prompt writes its own text behind it: rows from the first other token on are no longer the "
    "sample's, and what training saw there is not verified by them.",
    "Give the engine the samples' whole texts as prompts (`contract capture --samples` does), or accept that the rest is not covered.",
    "alignment",
    depth=None,
    severity=Severity.NOTE,
)
ROWS_USED: Final = _rule(
    "capture.rows-used",
    "Every row of the capture is used or accounted for",
    "A row that is passed over in silence is where a fault hides. Generated rows can be judged against the boundaries that the request "
    "itself recorded; rows behind a cached prefix and rows of further runs serve other comparisons.",
    "Record every boundary (`contract capture --sweep`), so that generated rows can be compared too.",
    "alignment",
    depth=None,
    severity=Severity.NOTE,
)
RULES: Final = (COUNTERS, ROWS_COVERED, ROWS_USED)
