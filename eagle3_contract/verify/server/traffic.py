"""Whose tokens the counters of vLLM counted between two readings: those of one request, or others' as well.

Every verify step emits at least one token, and every token is counted (``vllm:generation_tokens``, v1/metrics/loggers.py:1270): if exactly
the request's tokens were counted, no draft of anybody else was verified in between, and the difference of the draft counters is the
request's own. It must explain the tokens, too: one of the prefill, one for each verify step, one for each accepted draft, of which the end
of the answer cuts at most as many as one step accepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contract.errors import InputRejected
from eagle3_contract.verify.engine_runs.definitions import (
    TOTAL,
    VLLM_ACCEPTED,
    VLLM_DRAFT_TOKENS,
    VLLM_DRAFTS,
    VLLM_PER_POSITION,
    Counts,
    difference,
    from_vllm_metrics,
)
from eagle3_contract.verify.server.exposition import parse_metrics, total
from eagle3_contract.verify.server.facts import Window
from eagle3_contract.verify.server.rules import rejected

PREFIX: Final = "vllm:"
GENERATED: Final = "vllm:generation_tokens_total"
FINISHED: Final = "vllm:request_success_total"
PER_POSITION: Final = VLLM_PER_POSITION + TOTAL
DRAFTING: Final = (VLLM_DRAFTS + TOTAL, VLLM_DRAFT_TOKENS + TOTAL, VLLM_ACCEPTED + TOTAL, PER_POSITION)
MOST_POSITIONS: Final = 1024
"""Draft positions of a server; one beyond would only make a long list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters at one moment: tokens and requests of everybody, and drafts. None where the server does not count."""

    generated: int | None
    finished: int | None
    drafted: Counts | None
    positions: int | None


def read_counters(page: str | None, what: str) -> Reading:
    """The counters of a page of metrics (None: there is no page).

    Raises:
        InputRejected: ``server.answer`` if the page cannot be read, ``server.counters`` if a counter counts nothing.
    """
    if page is None:
        return Reading(generated=None, finished=None, drafted=None, positions=None)
    samples = parse_metrics(page, PREFIX, what=what)
    for name in DRAFTING:
        total(samples, name)  # every value is a count
    places = {labels.get("position", "") for name, labels, _ in samples if name == PER_POSITION}
    if any(not p.isdecimal() or not p.isascii() or len(p) > 4 or int(p) >= MOST_POSITIONS for p in places):
        raise rejected("server.counters", f"{what}: {VLLM_PER_POSITION} has a position that no drafter drafts at")
    return Reading(
        generated=total(samples, GENERATED),
        finished=total(samples, FINISHED),
        drafted=from_vllm_metrics(samples),
        positions=len(places) or None,
    )


def judge_window(before: Reading, after: Reading, *, tokens: int, deepest: int | None) -> tuple[Window, Counts | None, str]:
    """Whose a window is, the drafts that were verified in it (by anybody), and why it is not the request's own.

    Args:
        before, after: the counters before the request and after its answer.
        tokens: the answer's tokens, the prefill's among them.
        deepest: how many drafts one step can accept, if known.
    """
    if before.generated is None or after.generated is None:
        return Window.STILL, None, "the server counts no tokens"
    counted = after.generated - before.generated
    finished = None if before.finished is None or after.finished is None else after.finished - before.finished
    if counted < 0 or (finished is not None and finished < 0):
        return Window.RESET, None, "the counters shrank: the server was restarted, or another one answered"
    if counted < tokens:
        says = f"{counted} tokens were counted, the answer has {tokens}: these are counters of another server"
        return Window.STILL, None, says
    if before.drafted is None or after.drafted is None:
        if (before.drafted is None) is not (after.drafted is None):
            return Window.RESET, None, "draft counters came or went: another server answered"
        drafted = None
    else:
        try:
            drafted = difference(before.drafted, after.drafted)
        except InputRejected as error:
            return Window.RESET, None, error.message
    if counted > tokens or (finished is not None and finished > 1):
        others = "" if finished is None else f" and {finished} requests finished"
        return Window.FOREIGN, drafted, f"{counted} tokens were counted, the answer has {tokens}{others}"
    if drafted is not None and deepest is not None and 1 + drafted.rounds + drafted.accepted > tokens + deepest:
        says = f"{drafted.rounds} verify steps with {drafted.accepted} accepted drafts are more than {tokens} tokens need"
        return Window.FOREIGN, drafted, says
    return Window.OWN, drafted, ""
