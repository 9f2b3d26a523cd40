"""Whether what each round emitted follows from what it proposed, and is what the sequence goes on with."""

from __future__ import annotations

from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import ROOT
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger, Place
from eagle3_contract.verify.engine_drafter.subject import Subject


def verified(subject: Subject, ledger: Ledger) -> int:
    """Look at every round of a request; returns how many drafts were accepted."""
    recorded, accepted = subject.recorded, 0
    for number, (at, emitted) in enumerate(zip(recorded.fills.starts, recorded.emitted, strict=True)):
        if not emitted:
            continue
        proposed = recorded.proposed[number] if number < len(recorded.proposed) else []
        tree = recorded.tree[number] if number < len(recorded.tree) else []
        place = _place(subject, number, at - 1)
        ledger.compared(rules.VERIFICATION, place)
        accepted += len(emitted) - 1
        cause = _path_fault(proposed, tree, emitted) if tree else _chain_fault(proposed, emitted)
        held = recorded.tokens[at : at + len(emitted)]
        if cause is None and held != emitted[: len(held)]:
            cause = "is not what the sequence goes on with"
        if cause is None:
            cause = _not_greedy(subject, emitted, at)
        if cause is not None:
            says = f"proposed {proposed[:8]}, emitted {emitted}, the sequence has {held}"
            ledger.differs(rules.VERIFICATION, Difference(place=place, tensor="emitted", cause=cause, says=says))
    return accepted


def _place(subject: Subject, number: int, token: int) -> Place:
    """Between the round's last draft and the forward that commits what it gave."""
    forwards = subject.recorded.forwards
    after = next((f.number for f in forwards if f.info.round > number), len(forwards))
    return Place(
        request=subject.recorded.id,
        run=subject.recorded.run,
        phase="verification",
        round=number,
        step=0,
        forward=max(0, after - 1),
        row=0,
        token=token,
    )


def _chain_fault(proposed: list[int], emitted: list[int]) -> str | None:
    drafts = emitted[:-1]
    if drafts != proposed[: len(drafts)]:
        return "is not a prefix of the proposals and one token more: a draft was accepted that was not proposed there"
    if len(drafts) < len(proposed) and emitted[-1] == proposed[len(drafts)]:
        return "ends at a proposal that the target itself wrote: a right draft was refused"
    return None


def _path_fault(proposed: list[int], tree: list[int], emitted: list[int]) -> str | None:
    node = ROOT
    for token in emitted[:-1]:
        child = next((i for i, (t, p) in enumerate(zip(proposed, tree, strict=False)) if p == node and t == token), None)
        if child is None:
            return "is not a path of the tree and one token more: a draft was accepted that was not proposed there"
        node = child
    if any(t == emitted[-1] and p == node for t, p in zip(proposed, tree, strict=False)):
        return "ends at a proposal that the target itself wrote: a right draft was refused"
    return None


def _not_greedy(subject: Subject, emitted: list[int], at: int) -> str | None:
    """Where the target's argmax was recorded behind each token, it is what is emitted."""
    greedy, before = subject.recorded.greedy, subject.account.first_slot
    said = [greedy[i] for i in range(at - 1 - before, min(at - 1 - before + len(emitted), len(greedy)))] if greedy else []
    return "is not the target's own greedy token" if said != emitted[: len(said)] else None
