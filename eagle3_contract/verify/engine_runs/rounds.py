"""Rounds of drafting and verifying, as they were recorded: where each begins, what it proposed, what it accepted, and which ones count.

Legend: a round at position p proposes drafts for the tokens x[p], x[p+1], ...; the tokens before p are known when it is drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from eagle3_contract.verify.engine_drafter.record import Recorded
from eagle3_contract.verify.engine_runs.definitions import Counts, from_rounds


class Kind(StrEnum):
    """What a round is to the figures: only the first kind counts in measured and predicted acceptance."""

    DRAFTED = "drafted"
    CUT = "cut off by the limit on new tokens, so that what it would have accepted is not known"
    SKIPPED = "verified with zeros in place of drafts, as the sequence had no room for the drafter"
    WITHOUT = "made without drafts"


@dataclass(frozen=True, slots=True)
class Round:
    """One round. ``parents`` is None for a chain, else the index of each proposal's parent, -1 for the root."""

    number: int
    at: int
    proposed: tuple[int, ...]
    parents: tuple[int, ...] | None
    emitted: tuple[int, ...]
    kind: Kind

    @property
    def accepted(self) -> int:
        """Accepted drafts: what was emitted without the bonus token."""
        return max(0, len(self.emitted) - (self.kind is not Kind.CUT))


def rounds_of(recorded: Recorded, undrafted: Sequence[int]) -> list[Round]:
    """The rounds of a request.

    Args:
        recorded: the request.
        undrafted: numbers of the rounds whose proposals no forward made (``Account.undrafted``).
    """
    found = []
    for number, (at, emitted) in enumerate(zip(recorded.fills.starts, recorded.emitted, strict=True)):
        proposed = tuple(recorded.proposed[number]) if number < len(recorded.proposed) else ()
        parents = tuple(recorded.tree[number][: len(proposed)]) if number < len(recorded.tree) else None
        kind = Kind.DRAFTED
        if not proposed:
            kind = Kind.WITHOUT
        elif number in undrafted:
            kind = Kind.SKIPPED
        elif was_cut(proposed, parents, emitted):
            kind = Kind.CUT
        found.append(Round(number, at, proposed, parents, tuple(emitted), kind))
    return found


def was_cut(proposed: Sequence[int], parents: Sequence[int] | None, emitted: Sequence[int]) -> bool:
    """Whether the bonus token is missing: every emitted token is an accepted draft, and another draft could have followed.

    The bonus is by definition no draft that could have been accepted, unless all of them were.
    """
    if not emitted:
        return True
    path = accepted_path(proposed, parents, emitted)
    return len(path) == len(emitted)


def accepted_path(proposed: Sequence[int], parents: Sequence[int] | None, truth: Sequence[int]) -> list[int]:
    """Indices of the proposals that a greedy target accepts if its own next tokens are ``truth``: from the root on, the child that is the
    next token, as long as there is one."""
    path: list[int] = []
    node = -1
    for token in truth:
        if parents is None:
            child = node + 1 if node + 1 < len(proposed) and proposed[node + 1] == token else None
        else:
            child = next((i for i, (p, t) in enumerate(zip(parents, proposed, strict=True)) if p == node and t == token), None)
        if child is None:
            break
        path.append(child)
        node = child
    return path


def depth(proposed: Sequence[int], parents: Sequence[int] | None) -> int:
    """Most drafts that a round can accept."""
    if parents is None:
        return len(proposed)
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 or parent >= len(depths) else depths[parent] + 1)
    return max(depths, default=0)


def counts(rounds: Sequence[Round]) -> Counts:
    """Measured acceptance of the rounds that count."""
    drafted = [r for r in rounds if r.kind is Kind.DRAFTED]
    return from_rounds([r.accepted for r in drafted], drafted=sum(len(r.proposed) for r in drafted))
