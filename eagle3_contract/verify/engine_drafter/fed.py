"""Which tokens the rows are fed, and at which positions. Legend: none; everything is numbers per row."""

from __future__ import annotations

from collections import Counter

from eagle3_contract.model.wiring import StepPositions, Wiring
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import Row
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.subject import Subject

NEAR = (0, 1, -1, 2, -2, 3)
"""Places around the right one where a wrong token is looked for."""


def input_ids(subject: Subject, shift: int, ledger: Ledger) -> None:
    """Every used row's token. Drafts of a tree are held against the logits instead (``proposals``)."""
    text = subject.account.text
    for _, row in subject.used():
        got = subject.value(row, "input_ids")
        if got is None:
            ledger.unknown(rules.IDS, "input_ids was not recorded")
            continue
        if row.token is None:
            if not row.drafted:
                ledger.unknown(rules.IDS, "the token behind the last one is not in the bundle", required=False)
            continue
        place = subject.place(row)
        ledger.compared(rules.IDS, place)
        fed = int(got)
        if fed == row.token:
            continue
        cause = f"is not the token that is due: {_which(subject, row, fed, text, shift)}"
        ledger.differs(
            rules.IDS,
            Difference(
                place=place, tensor="input_ids", cause=cause, says=f"fed {fed}, due {row.token}", evidence={"fed": fed, "due": row.token}
            ),
        )


def _which(subject: Subject, row: Row, fed: int, text: list[int], shift: int) -> str:
    if row.drafted:
        number = subject.recorded.forwards[row.forward].info.round
        proposed, step = subject.recorded.proposed[number], row.slot - row.root
        if fed in proposed:
            at = proposed.index(fed) + 1
            return f"it is the one proposed {abs(step - at)} step{'s' * (abs(step - at) > 1)} {'earlier' if at < step else 'later'}"
        return "it was not proposed in this round"
    for apart in NEAR:
        at = row.slot + apart
        if apart != shift and 0 <= at < len(text) and text[at] == fed:
            return (
                "it is the row's own token: nothing is shifted"
                if apart == 0
                else f"it is the token {apart} behind the row's own, not {shift}"
            )
    return "it is no token near it"


def positions(subject: Subject, wiring: Wiring, ledger: Ledger) -> None:
    """Every used row's position. One offset of all rows is told as such; so is one of the drafts."""
    offsets: list[tuple[Row, int, int]] = []
    for _, row in subject.used():
        got = subject.value(row, "position_ids")
        if got is None:
            ledger.unknown(rules.POSITIONS, "position_ids was not recorded")
            continue
        stands = row.root if wiring.step_positions is StepPositions.CONSTANT else row.slot
        offsets.append((row, int(got), stands + wiring.positions_start))
        ledger.compared(rules.POSITIONS, subject.place(row))
    apart = Counter(got - due for _, got, due in offsets)
    everywhere = len(apart) == 1
    drafts = [(row, got - due) for row, got, due in offsets if row.drafted]
    stay = len(drafts) > 0 and all(d == row.root - row.slot for row, d in drafts)
    steps = {row.slot - row.root for row, _ in drafts}
    one_draft_offset = len({d for _, d in drafts}) == 1
    for row, at, due in offsets:
        if at == due:
            continue
        if everywhere:
            cause = f"is off by {at - due:+d}, as in every row: one offset for all, which a plain rope does not notice"
        elif row.drafted and stay and (len(steps) > 1 or not one_draft_offset):
            cause = "stays at that of the last committed row in every draft step: positions do not advance"
        elif row.drafted and one_draft_offset:
            cause = f"is off by {at - due:+d} in every draft row and in no committed one"
        else:
            cause = f"is off by {at - due:+d}"
        ledger.differs(
            rules.POSITIONS,
            Difference(
                place=subject.place(row), tensor="position_ids", cause=cause, says=f"at {at}, due {due}", evidence={"at": at, "due": due}
            ),
        )
