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
from eagle3_contract.verify.engine_drafter.views import RIGHT, View, committed_upto, mask
from eagle3_contract.verify.engine_drafter.wrong_views import WRONG_VIEWS

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


def _with_cache_of(drafter: Drafter, subject: Subject, *, other: Subject, drafts_only: bool) -> Outputs | None:
    given = subject.inputs
    slots = min(len(other.account.committed) + other.account.first_slot, subject.account.next_slot)
    theirs = other.committed(slots)
    if given is None or theirs is None or other is subject:
        return None
    scene = subject.scene(drafter.wiring)
    seen_NN = mask(scene, RIGHT)
    count = scene.rows
    seen = torch.zeros((count + slots, count + slots), dtype=torch.bool)
    seen[:count, :count] = seen_NN
    seen[count:, count:] = torch.ones((slots, slots), dtype=torch.bool).tril()
    for i, row in enumerate(subject.account.rows):
        if row.drafted or not drafts_only:
            upto = min(slots, committed_upto(row))
            seen[i + subject.before, :count] = False
            seen[i + subject.before, [*scene.ancestors[i], i + subject.before]] = True
            seen[i + subject.before, count : count + upto] = True
    both = Inputs(
        torch.cat([given.ids_N, theirs.ids_N]),
        torch.cat([given.positions_N, theirs.positions_N]),
        torch.cat([given.hidden_NH, theirs.hidden_NH]),
    )
    out = replay(drafter, both, seen)
    own = slice(subject.before, count)
    return Outputs(out.final_NH[own], out.state_NH[own])
