"""Which rows of the target's forwards belong to the tokens that a request really has, and whether every one of them is there.

A verify step runs the last token and the drafts behind it; what of the drafts stays is what the round emitted. Rows of rejected drafts
are dropped here, before anything is compared: their context is a text that never was. No torch.

Legend: c tokens before the first row (from a prefix cache), P tokens of the prompt, O output tokens, T rows kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from contract.errors import InputRejected
from contract.files.bundle_manifest import INPUT_IDS, POSITION_IDS
from contract.files.names import shown
from eagle3_contract.engines.spool_events import EMITTED, OUTPUT_IDS, PARENTS, PROPOSED, Drafter, Round, Target
from eagle3_contract.engines.spool_read import RequestEvents, Stored, integers, spool_error


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows of one target event that are kept; they are the tokens ``first``, ``first + 1`` ... of the sequence."""

    event: Stored
    rows: Sequence[int]
    first: int


@dataclass(slots=True, eq=False)
class Committed:
    """One request as it really was.

    Attributes:
        tokens: prompt and output [P + O].
        prompt: P.
        first: c, where the rows begin.
        end: c + T; the tokens from ``first`` to ``end`` have rows.
        pieces: where the rows are, in the order in which they were run; they may overlap (a row that was run twice).
        forwards: the drafter's events that are kept, each with the number of rounds before it.
        rounds: proposed, emitted and (trees) parents of every round that is kept.
        cut: rows or rounds were left out because of ``max_rows``.
    """

    tokens: list[int]
    prompt: int
    first: int = 0
    end: int = 0
    pieces: list[Piece] = field(default_factory=list)
    forwards: list[tuple[Stored, int]] = field(default_factory=list)
    rounds: list[tuple[list[int], list[int], list[int] | None]] = field(default_factory=list)
    cut: bool = False


def committed(request: RequestEvents, *, max_rows: int) -> Committed:
    """Rebuild a finished request from its events, those of rank 0 where there are several.

    Args:
        request: its events; it has an output.
        max_rows: rows to keep; the event that would go beyond is cut if it is of the prefill, left out with all after it otherwise.

    Raises:
        InputRejected: ``engine.spool-order``, ``engine.spool-row`` or ``engine.spool-tokens``.
    """
    assert request.output is not None
    prompt = request.prompt.integers(INPUT_IDS)
    walk = _Walk(Committed(prompt + request.output.integers(OUTPUT_IDS), len(prompt)), shown(request.start.request), max_rows)
    for item in request.events:
        if walk.made.cut:
            break
        if not getattr(item.event, "rank", None):
            walk.take(item)
    return walk.finished()


class _Walk:
    """Takes events in order. ``known`` counts the tokens that the forwards so far explain, the prompt's included."""

    def __init__(self, made: Committed, name: str, max_rows: int) -> None:
        self.made, self.name, self.max_rows = made, name, max_rows
        self.begun = False
        self.known = made.prompt
        self.pending: Stored | None = None
        self.step: int | None = None

    def take(self, item: Stored) -> None:
        if isinstance(item.event, Drafter):
            self._drafted(item, item.event)
        elif isinstance(item.event, Round):
            self._round(item)
        elif isinstance(item.event, Target):
            if self.pending is not None:
                raise self._order(item, "rows of the target before the round of its last verification")
            self.pending = item if item.event.phase == "verify" else None
            if self.pending is None:
                self._plain(item)

    def finished(self) -> Committed:
        """Everything that the output says was run must have been recorded."""
        made = self.made
        if made.cut:
            return made
        if self.known < len(made.tokens):
            raise spool_error(
                "spool-tokens",
                f"request {self.name}: output token {self.known - made.prompt} ({made.tokens[self.known]}) has no forward that gave it",
            )
        return made

    def _plain(self, item: Stored) -> None:
        """A prefill or an ordinary decode: every row is a token, and the last one gives the next."""
        tensors = item.tensors()
        ids, positions = integers(tensors[INPUT_IDS]), integers(tensors[POSITION_IDS])
        self._keep(item, list(range(len(ids))), ids, positions)
        if self.made.end >= self.made.prompt and not self.made.cut:
            self.known = max(self.known, self.made.end + 1)

    def _round(self, item: Stored) -> None:
        verified, self.pending = self.pending, None
        if verified is None:
            raise self._order(item, "a round that no rows of the target verify")
        tensors = item.tensors()
        proposed, emitted = integers(tensors[PROPOSED]), integers(tensors[EMITTED])
        parents = integers(tensors[PARENTS]) if PARENTS in tensors else None
        ran = verified.tensors()
        ids, positions = integers(ran[INPUT_IDS]), integers(ran[POSITION_IDS])
        if not emitted or min(emitted) < 0 or ids[1 : 1 + len(proposed)] != proposed:
            raise self._order(item, f"it proposed {proposed} and emitted {emitted}, the target ran {ids}")
        rows = [0, *self._accepted(item, proposed, emitted, parents)]
        if positions[0] != self.known - 1:
            raise self._order(item, f"verified from position {positions[0]}, and {self.known} tokens are known")
        told = self.made.tokens[self.known : self.known + len(emitted)]
        if told != emitted[: len(told)]:
            raise spool_error("spool-tokens", f"request {self.name}: {item.file} emitted {emitted}, the output says {told}", item.file)
        self._keep(verified, rows, ids, positions)
        if not self.made.cut:
            self.known += len(emitted)
            self.made.rounds.append((proposed, emitted, parents))

    def _accepted(self, item: Stored, proposed: list[int], emitted: list[int], parents: list[int] | None) -> list[int]:
        """Rows of the accepted drafts: all but the last token that the round emitted, each a child of the one before."""
        rows, at = [], -1
        for token in emitted[:-1]:
            children = [i for i in range(len(proposed)) if (i - 1 if parents is None else parents[i]) == at]
            found = [i for i in children if proposed[i] == token]
            if not found:
                raise self._order(item, f"emitted {emitted}, and token {token} is no draft at that place of {proposed}")
            at = found[0]
            rows.append(1 + at)
        return rows

    def _keep(self, item: Stored, rows: list[int], ids: list[int], positions: list[int]) -> None:
        made = self.made
        first = positions[rows[0]]
        if not self.begun:
            if not 0 <= first < made.prompt:
                raise self._row(item, f"the first row is token {first} of a prompt of {made.prompt}")
            made.first = made.end = first
            self.begun = True
        rows = rows[: max(0, len(made.tokens) - first)]
        for at, row in enumerate(rows):
            if positions[row] != first + at or ids[row] != made.tokens[first + at]:
                expected = f"token {first + at} is {made.tokens[first + at]}"
                raise self._row(item, f"row {row} is token {positions[row]} = {ids[row]}; {expected}")
        if first < made.first and made.end > made.first:
            # Preempted, and run again from before where a cached prefix had ended: those tokens have no rows in this bundle.
            rows, first = rows[made.first - first :], made.first
            if not rows:
                return
        if first > made.end or first < made.first:
            raise self._row(item, f"rows from token {first} on, and those before end at {made.end}")
        room = made.first + self.max_rows - first
        if len(rows) > room:
            made.cut = True
            rows = rows[:room] if isinstance(item.event, Target) and item.event.phase == "prefill" else []
        if rows:
            made.pieces.append(Piece(item, rows, first))
            made.end = max(made.end, first + len(rows))

    def _drafted(self, item: Stored, event: Drafter) -> None:
        follows = event.step == 0 if event.phase != "draft" else self.step is not None and event.step == self.step + 1
        if not follows:
            before = "nothing" if self.step is None else f"step {self.step}"
            raise self._order(item, f"{event.phase} step {event.step} of the drafter after {before}")
        self.step = event.step
        self.made.forwards.append((item, len(self.made.rounds)))

    def _order(self, item: Stored, what: str) -> InputRejected:
        return spool_error("spool-order", f"request {self.name}: {item.file}: {what}", item.file)

    def _row(self, item: Stored, what: str) -> InputRejected:
        return spool_error("spool-row", f"request {self.name}: {item.file}: {what}", item.file)
