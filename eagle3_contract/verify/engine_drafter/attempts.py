"""One hypothesis as something that can be run on a request: another cache, another request's cache, other positions than those recorded.

Legend: N rows, E rows of another request, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_drafter.forwards import run
from eagle3_contract.verify.engine_drafter.replay import Inputs, Outputs, replay
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.views import RIGHT, Scene, View, committed_upto, mask, seen
from eagle3_contract.verify.engine_drafter.wrong_views import BEYOND, GROWS_TWICE, WRONG_VIEWS, slots_behind

Run = Callable[[Drafter, Subject], Outputs | None]
"""Our outputs for the request's own rows under the hypothesis; None where it says nothing about the request."""
NEIGHBOURS = 4
"""Other requests whose cache is tried."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """``words`` end the sentence "a row gives this that ..."."""

    name: str
    words: str
    run: Run
    known: str = ""


def attempts(everyone: Sequence[Subject]) -> Iterator[Attempt]:
    """Every hypothesis about cache and positions."""
    for view in WRONG_VIEWS:
        yield Attempt(view.name, f"sees {view.words}", partial(_under_view, view=view), view.known)
    words = "sees as many slots too many as its draft step counts, with what the requests before it left in them, or zeros"
    yield Attempt("beyond-reused", words, partial(_beyond_reused, everyone=everyone), GROWS_TWICE)
    for move, words in ((0, "at the position of the last committed row"), (1, "one position further"), (-1, "one position earlier")):
        yield Attempt(
            f"draft-positions{move:+d}", f"is rotated {words} than recorded, in draft steps" if move else _STAYS, partial(_moved, move=move)
        )
    for other in everyone[:NEIGHBOURS]:
        for drafts_only in (True, False):
            which = "as a draft row " if drafts_only else ""
            words = f"{which}sees the committed rows of request {other.recorded.id} in place of its own"
            name = f"cache-of-{other.recorded.id}{'-in-drafts' if drafts_only else ''}"
            yield Attempt(name, words, partial(_with_cache_of, other=other, drafts_only=drafts_only))


_STAYS = "is rotated at the position of the last committed row in every draft step, whatever is recorded"


def _under_view(drafter: Drafter, subject: Subject, *, view: View) -> Outputs | None:
    return run(drafter, subject, view)


def _moved(drafter: Drafter, subject: Subject, *, move: int) -> Outputs | None:
    given = subject.inputs
    assert given is not None
    rows = subject.account.rows
    by_M = torch.tensor([(move if move else r.root - r.slot) if r.drafted else 0 for r in rows], dtype=torch.int64)
    positions_N = given.positions_N.clone()
    positions_N[subject.before :] += by_M
    return run(drafter, subject, RIGHT, replace(given, positions_N=positions_N))


def _beyond_reused(drafter: Drafter, subject: Subject, *, everyone: Sequence[Subject]) -> Outputs | None:
    """The slots behind a draft row's own are of a block that served the requests before: in them stands what was written last."""
    given, scene = subject.inputs, subject.scene(drafter.wiring)
    assert given is not None
    seen_NN, blank_N = seen(scene, BEYOND)
    at = next(i for i, s in enumerate(everyone) if s is subject)
    earlier = [(s.inputs, s.scene(drafter.wiring)) for s in reversed(everyone[:at])]
    if blank_N is None or not earlier:
        return run(drafter, subject, BEYOND)
    borrowed: dict[tuple[int, int], int] = {}
    pairs: list[tuple[int, int]] = []
    for number, row in enumerate(subject.account.rows, start=subject.before):
        for slot in slots_behind(row):
            source = _last_in(slot, earlier) if scene.left_in(slot, row.forward) is None else None
            if source is not None:
                pairs.append((number, borrowed.setdefault(source, len(borrowed))))
    if not pairs:
        return run(drafter, subject, BEYOND)
    parts = [(earlier[k][0], n) for k, n in borrowed]
    more = Inputs(
        torch.stack([x.ids_N[n] for x, n in parts if x is not None]),
        torch.stack([x.positions_N[n] for x, n in parts if x is not None]),
        torch.stack([x.hidden_NH[n] for x, n in parts if x is not None]),
    )
    count, extra = scene.rows, len(borrowed)
    wide = torch.zeros((count + extra, count + extra), dtype=torch.bool)
    wide[:count, :count] = seen_NN
    wide[count:, count:] = torch.eye(extra, dtype=torch.bool)
    left_N = torch.cat([blank_N, torch.zeros(extra, dtype=torch.int64)])
    for number, e in pairs:
        wide[number, count + e] = True
        left_N[number] -= 1
    out = replay(drafter, _joined(given, more), wide, left_N)
    own = slice(subject.before, count)
    return Outputs(out.final_NH[own], out.state_NH[own])


def _last_in(slot: int, earlier: Sequence[tuple[Inputs | None, Scene]]) -> tuple[int, int] | None:
    """(place among the earlier requests, N-row) of the row that was written into a slot last."""
    for k, (inputs, scene) in enumerate(earlier):
        found = None if inputs is None else scene.left_in(slot, len(scene.account.phases))
        if found is not None:
            return k, found
    return None


def _joined(a: Inputs, b: Inputs) -> Inputs:
    return Inputs(torch.cat([a.ids_N, b.ids_N]), torch.cat([a.positions_N, b.positions_N]), torch.cat([a.hidden_NH, b.hidden_NH]))


def _with_cache_of(drafter: Drafter, subject: Subject, *, other: Subject, drafts_only: bool) -> Outputs | None:
    given = subject.inputs
    slots = min(len(other.account.committed) + other.account.first_slot, subject.account.next_slot)
    theirs = other.committed(slots)
    if given is None or theirs is None or other is subject:
        return None
    scene = subject.scene(drafter.wiring)
    count = scene.rows
    wide = torch.zeros((count + slots, count + slots), dtype=torch.bool)
    wide[:count, :count] = mask(scene, RIGHT)
    wide[count:, count:] = torch.ones((slots, slots), dtype=torch.bool).tril()
    for i, row in enumerate(subject.account.rows):
        if row.drafted or not drafts_only:
            upto = min(slots, committed_upto(row))
            wide[i + subject.before, :count] = False
            wide[i + subject.before, [*scene.ancestors[i], i + subject.before]] = True
            wide[i + subject.before, count : count + upto] = True
    out = replay(drafter, _joined(given, theirs), wide)
    own = slice(subject.before, count)
    return Outputs(out.final_NH[own], out.state_NH[own])
