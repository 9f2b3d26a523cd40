"""What a row sees of the other rows: the state of the key/value cache when it is computed.

The right one: the committed rows, each computed from the target's states whatever stood in its slot before; this round's ancestors; and
the row itself. ``wrong_views`` holds what engines make of it.

Legend: N rows: those of a cached prefix, borrowed from an earlier request, then those of the request in the engine's order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import torch
from torch import Tensor

from eagle3_contract.verify.engine_drafter.account import ROOT, Account, Kind, Row


@dataclass
class Scene:
    """The rows of one request as the views look at them.

    Attributes:
        account: the request's own rows.
        before: how many borrowed rows stand in front of them; N-row p < before stands in slot p.
        window: keys that a row sees at most, its own included; None for all.
        window_moves: whether the window moves on with the draft steps.
        sequence: N-row of every committed slot, ROOT for one that never ran; where a request was preempted, as it stood before.
        ancestors: per row of the request the N-rows of the drafts before it on its branch.
    """

    account: Account
    before: int
    window: int | None = None
    window_moves: bool = True
    sequence: Tensor = field(init=False)
    ancestors: list[list[int]] = field(init=False)
    _of_kind: dict[tuple[int, tuple[Kind, ...]], list[int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        a = self.account
        own = [ROOT if c == ROOT else c + self.before for c in a.committed]
        self.sequence = torch.tensor([*range(self.before), *own], dtype=torch.int64)
        self.ancestors = []
        for row in a.rows:
            drafted = row.parent is not None and a.rows[row.parent].drafted
            self.ancestors.append([*self.ancestors[row.parent], row.parent + self.before] if drafted and row.parent is not None else [])

    def epochs(self) -> Iterator[tuple[range, Tensor]]:
        """The request's rows between preemptions, and the sequence as the cache holds it for them."""
        start, sequence, of_forward = 0, self.sequence, self.account.of_forward
        for forward, slots in self.account.refilled:
            first = of_forward[forward].start
            yield range(start, first), sequence
            start, sequence = first, sequence.clone()
            at = torch.tensor([[slot, row + self.before] for slot, row in slots.items() if slot < len(sequence)], dtype=torch.int64)
            if at.numel():
                sequence[at[:, 0]] = at[:, 1]
        yield range(start, len(self.account.rows)), sequence

    @property
    def rows(self) -> int:
        """N."""
        return self.before + len(self.account.rows)

    def standing(self, slot: int, forward: int) -> int:
        """N-row of a committed slot as the cache holds it in a forward, ROOT if it never ran."""
        found = int(self.sequence[slot])
        for at, slots in self.account.refilled:
            if at <= forward and slot in slots:
                found = slots[slot] + self.before
        return found

    def left_in(self, slot: int, forward: int) -> int | None:
        """N-row that was last written into a slot before a forward, whatever became of it; None if none was since the cache was filled."""
        filled = max((at for at, _ in self.account.refilled if at <= forward), default=-1)
        rows = self._written.get(slot, [])
        found = next((n for n in reversed(rows) if self.row(n).forward < forward), None)
        return found if found is not None and self.row(found).forward >= filled else None

    @cached_property
    def _written(self) -> dict[int, list[int]]:
        """N-rows by slot, in the engine's order."""
        found: dict[int, list[int]] = {}
        for number, row in enumerate(self.account.rows, start=self.before):
            found.setdefault(row.slot, []).append(number)
        return found

    def of_forward(self, forward: int, *kinds: Kind) -> list[int]:
        """N-rows of a forward, of these kinds only if any are named."""
        key = (forward, kinds)
        if key not in self._of_kind:
            span = self.account.of_forward[forward]
            self._of_kind[key] = [i + self.before for i in span if not kinds or self.account.rows[i].kind in kinds]
        return self._of_kind[key]

    def row(self, number: int) -> Row:
        """The request's row behind an N-row that is not borrowed."""
        return self.account.rows[number - self.before]


@dataclass(frozen=True, slots=True)
class Sight:
    """The committed slots ``since`` ... ``upto - 1`` without the N-rows ``less``; the N-rows ``more``; and ``blank`` slots of zeros."""

    upto: int
    more: Collection[int] = ()
    less: Collection[int] = ()
    since: int = 0
    blank: int = 0


Sees = Callable[[Scene, int, Row], Sight]
"""(scene, N-row, the row) -> what it sees. The row itself is in ``more`` where it is seen."""


@dataclass(frozen=True, slots=True)
class View:
    """One state of the cache. ``words`` end the sentence "a row sees ..."; ``known`` is where an engine is known to do so."""

    name: str
    words: str
    sees: Sees
    known: str = ""


def mask(scene: Scene, view: View) -> Tensor:
    """Bool [N, N]: which rows each row sees. Borrowed rows see each other causally, whatever the view."""
    return seen(scene, view)[0]


def seen(scene: Scene, view: View) -> tuple[Tensor, Tensor | None]:
    """``mask``, and int64 [N] how many slots of zeros each row sees besides; None where none does."""
    before, rows = scene.before, scene.account.rows
    sights = [view.sees(scene, number, row) for number, row in enumerate(rows, start=before)]
    seen_NN = torch.zeros((scene.rows, scene.rows), dtype=torch.bool)
    seen_NN[:before, :before] = torch.ones((before, before), dtype=torch.bool).tril()
    slots_S = torch.arange(len(scene.sequence))
    since_M, upto_M = (torch.tensor([getattr(s, name) for s in sights])[:, None] for name in ("since", "upto"))
    committed_MS = (slots_S >= since_M) & (slots_S < upto_M)
    for span, sequence_S in scene.epochs():
        there_S = sequence_S != ROOT
        part = slice(before + span.start, before + span.stop)
        seen_NN[part, sequence_S[there_S]] = committed_MS[span.start : span.stop, there_S]
    for name, value in (("less", False), ("more", True)):
        pairs = [(number, n) for number, s in enumerate(sights, start=before) for n in getattr(s, name) if n != ROOT]
        if pairs:
            at_P, n_P = torch.tensor(pairs).T
            seen_NN[at_P, n_P] = value
    if scene.window is not None:
        seen_NN &= _in_window(scene, scene.window)
    blank_N = torch.tensor([0] * before + [s.blank for s in sights], dtype=torch.int64)
    return seen_NN, blank_N if bool(blank_N.any()) else None


def _in_window(scene: Scene, window: int) -> Tensor:
    rows = scene.account.rows
    slots_N = torch.tensor([*range(scene.before), *(r.slot for r in rows)])
    if scene.window_moves:
        return slots_N[:, None] - slots_N[None, :] < window
    roots_N = torch.tensor([*range(scene.before), *(r.root for r in rows)])
    drafted_N = torch.tensor([False] * scene.before + [r.drafted for r in rows])
    return (roots_N[:, None] - slots_N[None, :] < window) | drafted_N[None, :]


def committed_upto(row: Row) -> int:
    """How many committed slots stand before a row: those up to the root of a draft, those before any other row."""
    return row.root + 1 if row.drafted else row.slot


def right_sight(scene: Scene, number: int, row: Row) -> Sight:
    """As it should be. Of a forward with rejected rows each sees the ones before it."""
    if row.kind in (Kind.REJECTED, Kind.STRAY) and not row.drafted:
        span = scene.account.of_forward[row.forward]
        first = scene.account.rows[span.start].slot
        return Sight(first, list(range(span.start + scene.before, number + 1)))
    return Sight(committed_upto(row), [*scene.ancestors[number - scene.before], number])


RIGHT: Final = View("right", "the committed rows, this round's ancestors and itself", right_sight)
