"""Whether a capture contradicts itself, before it is compared with anything: a hook that stores references, rows out of place.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from contract.findings import Check, Where
from eagle3_contract.model.states import Recipe, State, recipe_text, state_name
from eagle3_contract.verify import rules
from eagle3_contract.verify.capture_set import Captured
from eagle3_contract.verify.states import SlotVerdict


def self_checks(captured: Captured) -> Iterator[Check]:
    """The checks of one request: its boundaries differ from each other, its rows follow each other."""
    yield _boundaries_differ(captured)
    yield _positions_advance(captured)


def _boundaries_differ(captured: Captured) -> Check:
    """No two boundaries are the same values. A layer changes every row, if only in the last digits, so equal ones are one tensor seen
    twice: a target that updates the stream in place, and a hook that kept a reference."""
    request, seen = captured.request.id, dict[int, list[State]]()
    for state, name in captured.states.items():
        x_TG = captured.load(name)
        seen.setdefault(hash(x_TG.contiguous().view(torch.uint8).numpy().tobytes()), []).append(state)
    equal = [states for states in seen.values() if len(states) > 1]
    if equal:
        names = "; ".join(" = ".join(state_name(s) for s in states) for states in equal)
        return rules.CAPTURE_ALIASED.failed(
            f"request {request} records the same values for different states: {names}",
            expected="different values",
            actual=[[str(s) for s in states] for states in equal],
            where=Where(sample=captured.request.sample or request),
        )
    return rules.CAPTURE_ALIASED.passed(f"request {request}: {len(captured.states)} recorded states differ from each other")


def _positions_advance(captured: Captured) -> Check:
    """Positions advance by one a row, and may begin again at zero where the next document of a packed row begins."""
    request = captured.request.id
    positions_T = captured.positions
    broken = (positions_T[1:] != positions_T[:-1] + 1) & (positions_T[1:] != 0)
    rows = broken.nonzero().flatten().tolist()
    # Two rows at position 0 are two documents of one token each: none is drafted for, and engines do not write it.
    rows += [int(r) for r in ((positions_T[1:] == 0) & (positions_T[:-1] == 0)).nonzero().flatten()]
    if len(positions_T) and int(positions_T.min()) < 0:
        rows.append(int(positions_T.argmin()) - 1)
    if not rows:
        return rules.CAPTURE_POSITIONS.passed(f"request {request}: positions advance by one a row")
    row = min(rows) + 1
    return rules.CAPTURE_POSITIONS.failed(
        f"request {request}: row {row} is at position {int(positions_T[row])}, the row before it at {int(positions_T[row - 1])}",
        expected=int(positions_T[row - 1]) + 1,
        actual=int(positions_T[row]),
        where=Where(sample=captured.request.sample or request, row=row),
    )


def recipe_said(said: Recipe, verdicts: Sequence[SlotVerdict]) -> Iterator[Check]:
    """Whether the manifest says what the slots carry, wherever every slot of a request is known to carry a plain state."""
    carried: dict[str, list[State | None]] = {}
    for verdict in verdicts:
        carried.setdefault(verdict.request, []).append(verdict.carried)
    for request, states in carried.items():
        known: Recipe = tuple(s for s in states if s is not None)
        if len(known) == len(states) and known != said:
            yield rules.CAPTURE_RECIPE.failed(
                f"the manifest says that {recipe_text(said)} was fed, the slots of {request} carry {recipe_text(known)}",
                expected=list(said),
                actual=list(known),
                where=Where(sample=request),
            )
            return
