"""Which tokens the rows are fed, and at which positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eagle3_contract.model.wiring import StepPositions, Wiring
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import Row
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.subject import Subject

NEAR: Final = (0, 1, 2, -1, 3, -2)
"""Places around the right one where a wrong token is looked for."""
LAST_OF_PROMPT: Final = "the last one of the whole prompt"
LAST_FILLED: Final = "the last one of all that is run again after the preemption"
CHUNK_END: Final = (
    "vLLM 0.32.0 does so in the last row of every chunk of a prompt but the last: v1/spec_decode/llm_base_proposer.py:1062-1065 takes "
    "the last "
    "token that is known, not the one behind the chunk. Serve with max_num_batched_tokens above the longest prompt (one chunk), or mend "
    "that line."
)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A row that is fed another token than its own, and everything that token may be."""

    subject: Subject
    row: Row
    fed: int
    may_be: tuple[str, ...]


def input_ids(subjects: Sequence[Subject], shift: int, ledger: Ledger) -> None:
    """Every used row's token. Drafts of a tree are held against the logits instead (``proposals``)."""
    wrong: list[_Wrong] = []
    for subject in subjects:
        for _, row in subject.used():
            got = subject.value(row, "input_ids")
            if got is None:
                ledger.unknown(rules.IDS, "input_ids was not recorded")
                continue
            if row.token is None:
                if not row.drafted:
                    ledger.unknown(rules.IDS, "the token behind the last one is not in the bundle", required=False)
                continue
            ledger.compared(rules.IDS, subject.place(row))
            if int(got) != row.token:
                may_be = tuple(_drafted(subject, row, int(got)) if row.drafted else _committed(subject, row, int(got), shift))
                wrong.append(_Wrong(subject, row, int(got), may_be))
    # A token occurs in many places: what explains most of the rows is believed first.
    common = Counter(words for w in wrong for words in w.may_be)
    for w in wrong:
        words = max(w.may_be, key=lambda words: common[words], default="no token of the sequence near it")
        ledger.differs(
            rules.IDS,
            Difference(
                place=w.subject.place(w.row),
                tensor="input_ids",
                cause=f"is not the token that is due but {words}",
                says=f"fed {w.fed}, due {w.row.token}",
                fix=CHUNK_END if words in (LAST_OF_PROMPT, LAST_FILLED) else None,
                evidence={"fed": w.fed, "due": w.row.token},
            ),
        )


def _committed(subject: Subject, row: Row, fed: int, shift: int) -> Iterator[str]:
    text, prompt = subject.account.text, subject.recorded.prompt
    if row.slot + shift < prompt and fed == text[prompt - 1] and subject.account.phases[row.forward] == "prefill":
        yield LAST_OF_PROMPT
    fill = subject.recorded.fills.of_forward.get(row.forward)
    if fill is not None and fill.anew and row.at + 1 < fill.due and fed == text[fill.first + fill.due - 1]:
        yield LAST_FILLED
    for apart in NEAR:
        at = row.slot + apart
        if apart != shift and 0 <= at < len(text) and text[at] == fed:
            yield "the row's own: nothing is shifted" if apart == 0 else f"the one {apart:+d} from the row's own, where {shift:+d} is due"
    if fed == 0:
        yield "0"


def _drafted(subject: Subject, row: Row, fed: int) -> Iterator[str]:
    proposed, step = subject.recorded.proposed[subject.recorded.forwards[row.forward].info.round], row.slot - row.root
    for at, token in enumerate(proposed, start=1):
        if token == fed:
            yield f"the one proposed {abs(step - at)} step{'s' * (abs(step - at) > 1)} {'earlier' if at < step else 'later'}"
    yield "one that was not proposed there"


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
