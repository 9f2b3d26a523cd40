"""Who carries a row: where a row is not the one that is due, the recorded row with the same bits says what was taken instead.

Legend: W width of a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3_contract.verify.engine_drafter.subject import Subject

STATES = ("state_out", "final_normed", "fc_out", "fc_in")
"""Recorded tensors in which a row may be found, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A recorded row: row ``row`` of tensor ``name`` in a forward of a request; of a slot, ``forward`` is the slot and ``row`` the
    token."""

    request: str
    forward: int
    row: int
    name: str


def bits(row_W: Tensor) -> bytes:
    """The values of a row, alike for every dtype; zero has one sign."""
    return (row_W.to(torch.float32) + 0.0).contiguous().numpy().tobytes()


class Carriers:
    """An index of every row of every request, made when it is first needed."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self._subjects = subjects
        self._states: dict[bytes, list[Carrier]] | None = None
        self._slots: dict[bytes, list[Carrier]] | None = None

    def of_state(self, row_W: Tensor) -> list[Carrier]:
        """Recorded rows with these values."""
        if self._states is None:
            found: dict[bytes, list[Carrier]] = defaultdict(list)
            for subject in self._subjects:
                for forward in subject.recorded.forwards:
                    for name in STATES:
                        tensor = forward.get(name)
                        for i, row in enumerate(() if tensor is None else tensor):
                            found[bits(row)].append(Carrier(subject.recorded.id, forward.number, i, name))
            self._states = found
        return self._states.get(bits(row_W), [])

    def of_slot(self, part_G: Tensor, states: int) -> list[Carrier]:
        """Captured slots with these values, ``states`` of them side by side in every row."""
        if self._slots is None:
            found: dict[bytes, list[Carrier]] = defaultdict(list)
            for subject in self._subjects:
                before = subject.account.first_slot
                for t, row in enumerate(subject.recorded.slots):
                    for slot, part in enumerate(row.chunk(states)):
                        found[bits(part)].append(Carrier(subject.recorded.id, slot, t + before, "slot"))
            self._slots = found
        return self._slots.get(bits(part_G), [])
