"""Whether a capture contradicts itself, before it is compared with anything: a hook that stores references, rows out of place.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch

from contract.findings import Check, Where
from contract.statement import fact
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import FINAL_NORM, Recipe, State, recipe_text, state_name
from eagle3_contract.verify import rules, state_rules
from eagle3_contract.verify.capture_set import Captured
from eagle3_contract.verify.states import SlotVerdict
from eagle3_contract.verify.target_tokens import TargetHead

BRANCH: Final = "branch_only"
SAME_TOKENS: Final = 0.9
"""Share of recorded tokens that the head has to give again. Near ties fall either way in bfloat16: some in a hundred, not one in ten."""


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


def greedy_check(captured: Captured, head: TargetHead | None) -> Iterator[Check]:
    """Whether the recorded tokens of the target are what its head says about the recorded final states; none where either is not there."""
    told_T, final = captured.greedy, captured.states.get(FINAL_NORM)
    if head is None or told_T is None or final is None:
        return
    request = captured.request.id
    last_TG = captured.load(final)
    if last_TG.shape != (len(told_T), len(head.norm_G)):
        return  # the shapes have a finding of their own
    same_T = head.tokens(last_TG, told_T[:0], norm=False, draft=False).full == told_T
    share = float(same_T.double().mean()) if len(same_T) else 1.0
    text = f"request {request}: {share:.1%} of the {len(told_T)} recorded tokens of the target are what its head says of the final states"
    if share >= SAME_TOKENS:
        yield rules.CAPTURE_GREEDY.passed(text)
    else:
        row = int((~same_T).nonzero()[0])
        where = Where(sample=captured.request.sample or request, row=row)
        yield rules.CAPTURE_GREEDY.failed(text, expected=f">= {SAME_TOKENS:.0%}", actual=share, where=where)


def point_said(contract: Contract, verdicts: Sequence[SlotVerdict]) -> Iterator[Check]:
    """A contract that says that a branch alone was fed, over slots that carry boundaries: these are the whole residual stream."""
    point = fact(contract.hidden_states.point)
    plain = [v for v in verdicts if v.right and isinstance(v.carried, int) and v.carried > 0]
    if point.known and point.value == BRANCH and plain:
        yield state_rules.POINT.failed(
            f"the contract says that the branch alone was taken, and slot {plain[0].slot} of {plain[0].request} carries "
            f"{state_name(plain[0].carried or 0)} of the residual stream, which is what the samples store",
            expected=BRANCH,
            actual="residual",
            where=Where(slot=plain[0].slot, sample=plain[0].request),
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
