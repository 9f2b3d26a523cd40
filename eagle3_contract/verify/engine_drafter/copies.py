"""Whether what is only handed on arrives: captured states at fc, fc's output at the layers, a row's state at the next step. Bit for bit.

Legend: W width of a row, C width of what reaches fc.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import Row
from eagle3_contract.verify.engine_drafter.carriers import Carrier, Carriers
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.subject import Subject


def copies(subject: Subject, states: int, carriers: Carriers, ledger: Ledger, *, fc: bool, rounding: float = 0.0) -> None:
    """Compare every used row of a request. The captured states are those of the first time that a row was run: where a preempted request
    is run again, what is fed may be ``rounding`` of its length away from them. ``fc``: the contract has one."""
    for _, row in subject.used():
        if row.drafted:
            _feedback(subject, row, carriers, ledger)
        else:
            _fc_input(subject, row, states, carriers, ledger, rounding if row.again else 0.0, fc)
            _hidden_input(subject, row, carriers, ledger, fc)


def same(a_W: Tensor, b_W: Tensor) -> bool:
    """Equal values; NaN equals nothing."""
    return a_W.shape == b_W.shape and torch.equal(a_W.to(torch.float32), b_W.to(torch.float32))


def _fc_input(subject: Subject, row: Row, states: int, carriers: Carriers, ledger: Ledger, rounding: float, fc: bool) -> None:
    got, token = subject.value(row, "fc_in"), row.slot - subject.account.first_slot
    slots_TC = subject.recorded.slots
    if token < 0:
        ledger.unknown(rules.FC_INPUT, "it was run again after a preemption, and its states came from a cache before", required=False)
        return
    if token >= len(slots_TC):
        ledger.unknown(rules.FC_INPUT, "it stands behind the last token that the answer kept", required=False)
        return
    name = "fc_in"
    if got is None:  # without an fc the states go straight to the layers
        got, name = subject.value(row, "hidden_in"), "hidden_in"
        if got is None or got.shape != slots_TC[token].shape or (fc and not same(got, slots_TC[token])):
            ledger.unknown(rules.FC_INPUT, "fc_in was not recorded")
            return
    place = subject.place(row)
    ledger.compared(rules.FC_INPUT, place)
    if same(got, slots_TC[token]) or _near(got, slots_TC[token], states, rounding):
        return
    cause, says = "is not the captured states of its token: ", ""
    if got.shape != slots_TC[token].shape:
        cause += f"it is {len(got)} wide, the slots are {len(slots_TC[token])}"
    else:
        cause += _whose_slots(subject, row, got, states, carriers)
        says = _distance(got, slots_TC[token])
    ledger.differs(rules.FC_INPUT, Difference(place=place, tensor=name, cause=cause, says=says))


def _whose_slots(subject: Subject, row: Row, got_C: Tensor, states: int, carriers: Carriers) -> str:
    parts: list[str] = []
    found = [carriers.of_slot(part, states) for part in got_C.chunk(states)]
    for i, candidates in enumerate(found):
        own = [c for c in candidates if c.request == subject.recorded.id]
        best = min(own or candidates, key=lambda c: (abs(c.row - row.slot), abs(c.forward - i)), default=None)
        parts.append("no recorded state" if best is None else _slot_words(subject, row, i, best))
    if len(set(parts)) == 1:
        return f"it carries {parts[0]}"
    return "; ".join(f"slot {i} carries {p}" for i, p in enumerate(parts))


def _slot_words(subject: Subject, row: Row, slot: int, c: Carrier) -> str:
    words = "its own state" if c.forward == slot else f"the state of slot {c.forward}"
    if c.request != subject.recorded.id:
        return f"{words} of request {c.request}"
    apart = c.row - row.slot
    return words if not apart else f"{words}, {abs(apart)} token{'s' * (abs(apart) > 1)} {'later' if apart > 0 else 'earlier'}"


def _hidden_input(subject: Subject, row: Row, carriers: Carriers, ledger: Ledger, fc: bool) -> None:
    got, due, given = (subject.value(row, name) for name in ("hidden_in", "fc_out", "fc_in"))
    if fc and due is None and given is None:  # no hook on fc ran: then what it would have been given are the states
        token, slots_TC = row.slot - subject.account.first_slot, subject.recorded.slots
        given = slots_TC[token] if 0 <= token < len(slots_TC) else None
    skipped = got is not None and given is not None and same(got, given)
    if got is None or (due is None and not skipped):
        if got is None or given is not None:
            ledger.unknown(rules.HIDDEN_INPUT, f"{'hidden_in' if got is None else 'fc_out'} was not recorded")
        return
    place = subject.place(row)
    ledger.compared(rules.HIDDEN_INPUT, place)
    if due is not None and same(got, due):
        return
    cause = _SKIPPED if skipped else f"is not what fc gave for it: {_whose_state(subject, row, row.at, got, carriers)}"
    says = "" if due is None else _distance(got, due)
    fix = _UNSKIP if skipped else None
    ledger.differs(rules.HIDDEN_INPUT, Difference(place=place, tensor="hidden_in", cause=cause, says=says, fix=fix))


_UNSKIP = (
    "SGLang takes one state as wide as the drafter for one that went through fc already (0.5.23, llama_eagle3.py:238): train on two states "
    "or more, or serve with an engine that applies fc; `contract read` shows which."
)
_SKIPPED = "is what should have gone into fc: fc (with the norms before it) is skipped"


def _feedback(subject: Subject, row: Row, carriers: Carriers, ledger: Ledger) -> None:
    got = subject.value(row, "hidden_in")
    parent = None if row.parent is None else subject.account.rows[row.parent]
    due = None if parent is None else subject.value(parent, "state_out")
    if got is None or parent is None or due is None:
        ledger.unknown(rules.FEEDBACK, "hidden_in, or the state_out of the row before it, was not recorded")
        return
    place = subject.place(row)
    ledger.compared(rules.FEEDBACK, place)
    if same(got, due):
        return
    normed = subject.value(parent, "final_normed")
    cause, fix = "is not the state that its parent row handed on: ", None
    if normed is not None and same(got, normed):
        cause += "it is the parent's state behind the final norm"
        fix = "Look at the key norm_output (vLLM, SGLang): the engine feeds the normed state back."
    else:
        cause += _whose_state(subject, row, parent.at, got, carriers)
    ledger.differs(rules.FEEDBACK, Difference(place=place, tensor="hidden_in", cause=cause, says=_distance(got, due), fix=fix))


def _whose_state(subject: Subject, row: Row, due_at: int, got_H: Tensor, carriers: Carriers) -> str:
    """In words that are alike for every row with the same fault."""
    if not bool(got_H.any()):
        return "it is zero"
    if not bool(torch.isfinite(got_H).all()):
        return "it is not finite"
    candidates = carriers.of_state(got_H)
    own = [c for c in candidates if c.request == subject.recorded.id and c.forward <= row.forward]
    if not candidates:
        return "no recorded row has these values"
    if not own:
        c = candidates[0]
        return f"it is {c.name} of request {c.request}"
    c = min(own, key=lambda x: (row.forward - x.forward, abs(x.row - due_at)))
    info = subject.recorded.forwards[c.forward].info
    mine = subject.recorded.forwards[row.forward].info
    if c.forward == row.forward or (row.drafted and c.forward == row.forward - 1):
        apart = c.row - due_at
        if apart == 0:
            return f"it is {c.name} of that row"
        return f"it is {c.name} {abs(apart)} row{'s' * (abs(apart) > 1)} {'behind' if apart > 0 else 'before'} it"
    when = f"{mine.round - info.round} rounds before" if info.round != mine.round else "the same round"
    step = f"draft step {info.step}" if info.phase == "draft" else info.phase
    return f"it is {c.name} of {step} of {when}"


def _near(got_C: Tensor, due_C: Tensor, states: int, rounding: float) -> bool:
    """Whether each state is within this share of its length; nothing is within zero."""
    if not rounding or got_C.shape != due_C.shape:
        return False
    got_KG, due_KG = (x.to(torch.float64).view(states, -1) for x in (got_C, due_C))
    return bool(((got_KG - due_KG).norm(dim=1) <= rounding * due_KG.norm(dim=1)).all())


def _distance(got_W: Tensor, due_W: Tensor) -> str:
    norm = float(due_W.to(torch.float64).norm())
    apart = float((got_W.to(torch.float64) - due_W.to(torch.float64)).norm())
    return f"{apart / norm:.2g} of its length apart" if norm > 0 else f"{apart:.2g} apart from zero"
