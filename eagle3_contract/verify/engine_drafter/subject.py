"""One request made ready: its rows accounted for, and what the engine recorded of each, stacked in the engine's order.

Legend: N rows (those borrowed for a cached prefix first), M the request's own rows, W width of a tensor, H hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eagle3_contract.model.wiring import Wiring
from eagle3_contract.verify.engine_drafter.account import ROOT, USED, Account, Row, account
from eagle3_contract.verify.engine_drafter.ledger import Place
from eagle3_contract.verify.engine_drafter.record import Recorded
from eagle3_contract.verify.engine_drafter.replay import Inputs
from eagle3_contract.verify.engine_drafter.views import Scene

NO_SOURCE = "the rows of the cached prefix belong to a request that is not in the bundle"
NEEDED = ("hidden_in", "input_ids", "position_ids")
"""What our forward is given of every row."""


@dataclass(eq=False)
class Subject:
    """A request that can be looked at row by row.

    Attributes:
        recorded: the request.
        account: what its rows are for.
        borrowed: what the rows of the cached prefix were fed, None if there is no prefix or nobody recorded it.
        source: id of the request that they are borrowed from.
    """

    recorded: Recorded
    account: Account
    borrowed: Inputs | None = None
    source: str | None = None
    inputs: Inputs | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.problem is None:
            self.inputs = self._inputs()

    @property
    def problem(self) -> str | None:
        """Why our forward cannot be run on it; None if it can."""
        if self.account.first_slot and self.borrowed is None:
            return NO_SOURCE
        lacking = next((n for n in NEEDED for f in self.recorded.forwards if f.get(n) is None), None)
        return None if lacking is None else f"{lacking} was not recorded"

    @property
    def before(self) -> int:
        """Borrowed rows."""
        return 0 if self.borrowed is None else len(self.borrowed.ids_N)

    def scene(self, wiring: Wiring) -> Scene:
        """The rows as views look at them, under a wiring's window."""
        return Scene(self.account, self.before, wiring.window, wiring.window_follows_steps)

    def place(self, row: Row) -> Place:
        """Where a row is."""
        info = self.recorded.forwards[row.forward].info
        return Place(
            request=self.recorded.id,
            run=self.recorded.run,
            phase=info.phase,
            round=info.round,
            step=info.step,
            forward=row.forward,
            row=row.at,
            token=row.slot,
        )

    def used(self) -> Iterator[tuple[int, Row]]:
        """Index and row of everything that is no junk."""
        for i, row in enumerate(self.account.rows):
            if row.kind in USED:
                yield i, row

    def value(self, row: Row, name: str) -> Tensor | None:
        """What was recorded of a row, [W] (or a number), or None."""
        tensor = self.recorded.forwards[row.forward].get(name)
        return None if tensor is None else tensor[row.at]

    def stacked(self, name: str) -> Tensor | None:
        """A tensor over all the request's own rows [M, W] float32; NaN where it was not recorded, None if nowhere."""
        parts = [f.get(name) for f in self.recorded.forwards]
        width = next((p.shape[1] for p in parts if p is not None), None)
        if width is None:
            return None
        filled = [
            torch.full((f.info.rows, width), float("nan")) if p is None or p.shape[1] != width else p.to(torch.float32)
            for f, p in zip(self.recorded.forwards, parts, strict=True)
        ]
        return torch.cat(filled)

    def _inputs(self) -> Inputs:
        forwards = self.recorded.forwards
        own = Inputs(
            torch.cat([f["input_ids"] for f in forwards]),
            torch.cat([f["position_ids"] for f in forwards]),
            torch.cat([f["hidden_in"].to(torch.float32) for f in forwards]),
        )
        if self.borrowed is None:
            return own
        b = self.borrowed
        return Inputs(torch.cat([b.ids_N, own.ids_N]), torch.cat([b.positions_N, own.positions_N]), torch.cat([b.hidden_NH, own.hidden_NH]))

    def committed(self, slots: int) -> Inputs | None:
        """What the rows of the first slots were fed, borrowed ones included; None if they are not all there."""
        inputs = self.inputs
        if inputs is None:
            return None
        rows = [*range(self.before), *(c + self.before if c != ROOT else ROOT for c in self.account.standing_at())][:slots]
        if len(rows) < slots or ROOT in rows:
            return None
        at = torch.tensor(rows, dtype=torch.int64)
        return Inputs(inputs.ids_N[at], inputs.positions_N[at], inputs.hidden_NH[at])


def subjects(requests: Sequence[Recorded], *, shift: int, longest: int | None) -> list[Subject]:
    """All requests, in the order they ran; a cached prefix is taken from the latest earlier request with the same tokens.

    Of the earlier ones, those of the same run come first (the engine was started once for them), and those that agree on the token after
    the prefix, too: the prefix's last row was fed it.
    """
    done: list[Subject] = []
    for recorded in requests:
        found = account(recorded, shift=shift, longest=longest)
        subject = Subject(recorded, found)
        count = found.first_slot
        if count:
            latest = [*reversed(done)]
            for other in sorted(latest, key=lambda s: (s.recorded.run != recorded.run, not _agrees(s, found, count + shift))):
                borrowed = other.committed(count) if _agrees(other, found, count) else None
                if borrowed is not None:
                    subject = Subject(recorded, found, borrowed, other.recorded.id)
                    break
        done.append(subject)
    return done


def _agrees(other: Subject, found: Account, tokens: int) -> bool:
    return other.account.text[:tokens] == found.text[:tokens] and len(other.account.text) >= tokens
