"""Whether the engine proposes what its own logits rank first, through the contract's vocab map. Chains and trees.

Legend: W width of the logits shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import USED, Row
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger, Place
from eagle3_contract.verify.engine_drafter.maps import Maps
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.trees import branches, tree_sources

CHAIN = 1


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """A token that was chosen after a row: which should be among the first ``count`` of its logits."""

    place: Place
    tensor: str
    token: int
    logits_W: Tensor
    count: int


def proposals(subjects: Sequence[Subject], maps: Maps, ledger: Ledger) -> None:
    """Hold every proposal, and every token that a draft row of a tree is fed, against the logits that it came from."""
    wrong: list[_Choice] = []
    for subject in subjects:
        for choice in _choices(subject, maps, ledger):
            _, tokens = maps.best(choice.logits_W, choice.count)
            ledger.compared(rules.PROPOSALS, choice.place)
            if choice.token not in tokens:
                wrong.append(choice)
    if not wrong:
        return
    mapped = _map_words(wrong, maps)
    for choice in wrong:
        ids, tokens = maps.best(choice.logits_W, choice.count)
        rule = rules.PROPOSALS if mapped is None else rules.VOCAB_MAP
        among = "the first" if choice.count == CHAIN else f"among the first {choice.count}"
        cause = (
            f"is not {among} of the row's logits" if mapped is None else f"is not what the contract's map makes of the draft id: {mapped}"
        )
        if mapped is not None:
            ledger.compared(rule, choice.place)
        first_ids, first = sorted(ids)[:3], sorted(tokens)[:3]
        says = f"token {choice.token}; the logits rank draft id {first_ids} first, token {first}"
        ledger.differs(rule, Difference(place=choice.place, tensor=choice.tensor, cause=cause, says=says))


def _map_words(wrong: Sequence[_Choice], maps: Maps) -> str | None:
    """The map under which every wrong proposal is right, in words; None if it is not the map."""
    if not all(maps.is_draft(len(c.logits_W)) for c in wrong):
        return None
    chosen = [(maps.best(c.logits_W, c.count)[0], c.token) for c in wrong]
    for words, ids_D in maps.others.items():
        if all(any(int(ids_D[i]) == token for i in ids) for ids, token in chosen):
            return words
    single = [(next(iter(ids)), token) for ids, token in chosen if len(ids) == 1]
    known = set(maps.targets_D.tolist())
    if len({i for i, _ in single}) > 1 and _is_a_map(single) and all(t in known for _, t in single):
        return "its tokens, in another order of the draft ids"
    return None


def _is_a_map(pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether every draft id always means one token, and no two mean the same."""
    return len({i for i, _ in pairs}) == len(set(pairs)) == len({t for _, t in pairs})


def _choices(subject: Subject, maps: Maps, ledger: Ledger) -> Iterator[_Choice]:
    logits = _logits(subject)
    by_round = _rows_by_round(subject)
    for number, proposed in enumerate(subject.recorded.proposed):
        if not proposed or number in subject.account.undrafted:
            continue
        tree = subject.recorded.tree[number] if number < len(subject.recorded.tree) else []
        rows = by_round.get(number, [])
        if not rows:
            ledger.unknown(rules.PROPOSALS, "no row was recorded that they could come from", len(proposed))
            continue
        sources = tree_sources(subject, rows, proposed, tree) if tree else _chain_sources(subject, rows, len(proposed))
        width = _width(subject, rows) if tree else CHAIN
        for token, source in zip(proposed, sources, strict=True):
            if source is None or source not in logits:
                if source is None or subject.account.rows[source].kind in USED:
                    ledger.unknown(rules.PROPOSALS, "the logits that they come from were not recorded")
                continue
            yield _Choice(subject.place(subject.account.rows[source]), "proposed", token, logits[source], width)
        if tree:
            yield from _tree_rows(subject, rows, logits, width)
            branches(subject, rows, proposed, tree, logits, width, maps, ledger)


def _logits(subject: Subject) -> dict[int, Tensor]:
    """Row index -> logits [W]."""
    found: dict[int, Tensor] = {}
    for forward in subject.recorded.forwards:
        logits, at = forward.get("logits"), forward.get("logit_rows")
        if logits is None:
            continue
        rows = list(range(forward.info.rows)) if at is None else [int(i) for i in at.tolist()]
        start = subject.account.of_forward[forward.number].start
        for i, r in enumerate(rows[: len(logits)]):
            found[start + r] = logits[i].to(torch.float32)
    return found


def _rows_by_round(subject: Subject) -> dict[int, list[int]]:
    """Per round the row it starts from (the last committed one before it), then its draft rows."""
    found: dict[int, list[int]] = {}
    for i, row in enumerate(subject.account.rows):
        number = subject.recorded.forwards[row.forward].info.round
        if row.drafted and row.kind in USED:
            found.setdefault(number, []).append(i)
        elif not row.drafted and row.kind in USED:
            found[number] = [i]
    return found


def _step(row: Row) -> int:
    return row.slot - row.root


def _chain_sources(subject: Subject, rows: Sequence[int], count: int) -> list[int | None]:
    by_step = {_step(subject.account.rows[i]): i for i in rows}
    return [by_step.get(step) for step in range(count)]


def _width(subject: Subject, rows: Sequence[int]) -> int:
    """Rows that a step of this tree has: how many tokens are looked at after each row."""
    counts: dict[int, int] = {}
    for i in rows:
        row = subject.account.rows[i]
        if row.drafted:
            counts[row.forward] = counts.get(row.forward, 0) + 1
    return max(counts.values(), default=CHAIN)


def _tree_rows(subject: Subject, rows: Sequence[int], logits: dict[int, Tensor], width: int) -> Iterator[_Choice]:
    for i in rows:
        row = subject.account.rows[i]
        fed = subject.value(row, "input_ids")
        if row.drafted and row.parent is not None and row.parent in logits and fed is not None:
            yield _Choice(subject.place(row), "input_ids", int(fed), logits[row.parent], width)
