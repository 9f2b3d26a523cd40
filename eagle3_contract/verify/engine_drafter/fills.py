"""Prefills: at which slot each begins, and where each round's tokens stand in the text.

An engine that runs out of room preempts a request, and later runs its prompt and what it had written once more (vLLM 0.32.0
v1/core/sched/scheduler.py:1593 sets ``num_computed_tokens`` to 0; SGLang calls it retraction). Such a *refill* is a prefill that begins
at a slot which has run before, or, with a prefix cache, behind what that still holds. Drafts that were not verified are forgotten, and
the refill itself gives the next token: one that no round gave.

The slot of a row is the place of its token; the row of slot p is fed token p + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contract.files.bundle_manifest import ForwardInfo

FED = 1
"""How far the token that a row is fed stands behind the row's own. It only ranks where a refill may begin."""


class _Forward(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def info(self) -> ForwardInfo: ...

    def ints(self, name: str) -> list[int] | None:
        """Whole numbers of the forward."""


@dataclass(frozen=True, slots=True)
class Fill:
    """One prefill: its first row's slot, how many rows are due from there on, and whether it begins anew what had run or begun."""

    first: int
    due: int
    anew: bool


@dataclass(slots=True)
class Fills:
    """Every prefill by the number of its forward, where each round's tokens begin, and the last prefill of each round."""

    of_forward: dict[int, Fill] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)


def fills(forwards: Sequence[_Forward], *, prompt: int, prefix: int, tokens: Sequence[int], emitted: Sequence[Sequence[int]]) -> Fills:
    """Walk over the prefills of a request.

    Where a refill begins is told by its positions, or by its rows if they end where all tokens are known; of what is possible the one that
    fits the tokens that were fed. Positions are not believed where the tokens say otherwise.

    Args:
        forwards: of the drafter, in their order.
        prompt: tokens of the prompt.
        prefix: tokens of it from a prefix cache.
        tokens: the text, as far as the target ran it.
        emitted: what each round gave.
    """
    walk = _Walk(forwards, prompt, prefix, tokens, emitted)
    for at, forward in enumerate(forwards):
        if forward.info.phase == "draft":
            continue
        walk.rounds(min(forward.info.round, len(emitted)))
        if forward.info.phase == "prefill":
            walk.prefill(at)
    walk.rounds(len(emitted))
    return walk.made


class _Walk:
    """``known`` counts the tokens whose value is known, ``at`` is the slot that a prefill goes on with."""

    def __init__(
        self, forwards: Sequence[_Forward], prompt: int, prefix: int, tokens: Sequence[int], emitted: Sequence[Sequence[int]]
    ) -> None:
        self.forwards, self.prompt, self.tokens, self.emitted = forwards, prompt, tokens, emitted
        self.known, self.at, self.filling = prompt, prefix, True
        first = forwards[0].ints("position_ids") if forwards else None
        self.offset = first[0] - prefix if first else 0
        self.made = Fills()

    def rounds(self, count: int) -> None:
        """The first ``count`` rounds have been verified."""
        while len(self.made.starts) < count:
            start = max(self.known, self.prompt + 1)
            self.made.starts.append(start)
            self.known = start + len(self.emitted[len(self.made.starts) - 1])
            self.at, self.filling = self.known - 1, False

    def prefill(self, index: int) -> None:
        forward = self.forwards[index]
        first, anew = self.at, not self.filling
        if anew:
            first = self._begins(index)
        else:
            told = self._told(forward)
            if told is not None and 0 <= told < self.at and self._fits(forward, told) > self._fits(forward, self.at):
                first, anew = told, True
        self.made.of_forward[forward.number] = Fill(first, self.known - first, anew)
        self.made.last[forward.info.round] = forward.number
        self.at = min(self.known, first + forward.info.rows)
        self.filling = self.at < self.known
        self.known += not self.filling

    def _begins(self, index: int) -> int:
        forward = self.forwards[index]
        told = self._told(forward)
        choices = [c for c in (told, self.known - self._rows_from(index), 0) if c is not None and 0 <= c < self.known]
        return max(choices, key=lambda c: self._fits(forward, c))

    def _told(self, forward: _Forward) -> int | None:
        positions = forward.ints("position_ids")
        return positions[0] - self.offset if positions else None

    def _rows_from(self, index: int) -> int:
        """Rows of the prefills from here to the next extend."""
        rows = 0
        for forward in self.forwards[index:]:
            if forward.info.phase == "extend":
                break
            rows += forward.info.rows if forward.info.phase == "prefill" else 0
        return rows

    def _fits(self, forward: _Forward, first: int) -> int:
        """How many rows are fed the token that is due if the first of them has this slot."""
        ids = forward.ints("input_ids") or []
        return sum(a == b for a, b in zip(ids, self.tokens[first + FED :], strict=False))
