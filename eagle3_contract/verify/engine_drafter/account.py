"""What every row that the drafter ran is for, told from the prompt, from what each round emitted, and from the order of the forwards.

Nothing is read out of positions or ids here: these are what the account is held against.

A request that was preempted is filled again (``fills``): rows that had run run once more, and take the place of the earlier ones in the
cache. Drafts of that round which were made before are never verified.

The *slot* of a row is the place of its token in the sequence: the row of slot p pairs state g[p] with token x[p + shift]. The draft rows
of a round whose last committed slot is p stand in the slots p + step.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from eagle3_contract.verify.engine_drafter.record import Forward, Recorded


class Kind(StrEnum):
    """What a row is for. The first three are held against our forward, the others are junk by an engine's design but the last."""

    COMMITTED = "committed"
    DRAFT = "draft"
    UNVERIFIED = "draft never verified"
    REJECTED = "rejected draft behind the accepted"
    WASTED = "draft after a chunk of the prompt"
    BEYOND = "beyond the longest sequence"
    STRAY = "unaccounted"


USED = frozenset({Kind.COMMITTED, Kind.DRAFT, Kind.UNVERIFIED})
NEVER_RAN: Final = "committed rows never ran from the target's states"
LEFT_OUT: Final = "the drafter was left out for whole rounds before it, and what they committed never ran"
ZEROS: Final = "zeros were proposed in a round without running the drafter, though there was room for drafts"
ROOT = -1
"""Parent of the first draft rows in recorded ``parents``, and of the first proposals in a tree."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        forward: number of the forward.
        at: the row's place in that forward.
        kind: what it is for.
        slot: see above.
        root: slot of the last committed row before its round (drafts), else its own slot.
        parent: index into ``Account.rows`` of the row whose state it is handed (drafts; None if there is none).
        token: the token it should be fed; None where the bundle does not say.
        accepted: a draft of a chain whose token was accepted.
        again: a committed row that had run before, run once more after a preemption.
    """

    forward: int
    at: int
    kind: Kind
    slot: int
    root: int
    parent: int | None = None
    token: int | None = None
    accepted: bool = False
    again: bool = False

    @property
    def drafted(self) -> bool:
        """Whether it is a draft row: handed the drafter's own state."""
        return self.slot > self.root


@dataclass(slots=True)
class Account:
    """The rows of one request in the engine's order.

    Attributes:
        committed: per slot from the prefix on the index of the row that was fed from the target's states, the first that was.
        refilled: (forward, slot -> index of the row) of each forward that ran such rows again, in their order.
        committed_before: per forward the number of slots that were committed when it began.
        phases: per forward.
        problems: (forward number or None, what is wrong) of rows too many or too few.
        undrafted: rounds whose proposals no forward made.
        never_fed: by the next forward that ran, (round, first token, last token) of each round whose drafter was left out.
        text: every token known of the sequence.
    """

    first_slot: int
    text: list[int]
    rows: list[Row] = field(default_factory=list)
    of_forward: list[range] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    refilled: list[tuple[int, dict[int, int]]] = field(default_factory=list)
    committed_before: list[int] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    problems: list[tuple[int | None, str]] = field(default_factory=list)
    undrafted: list[int] = field(default_factory=list)
    never_fed: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def hole_before(self, row: Row) -> bool:
        """Whether a committed row that this one should see never ran."""
        upto = (row.root + 1 if row.drafted else row.slot) - self.first_slot
        return ROOT in self.standing_at(row.forward)[: max(0, upto)]

    def standing_at(self, forward: int | None = None) -> list[int]:
        """``committed`` as the cache has it in a forward (None: at the end): what was run again stands for what was run before."""
        done = len(self.refilled) if forward is None else bisect_right([k for k, _ in self.refilled], forward)
        standing = self.committed
        if any(min(slots) - self.first_slot < len(standing) for _, slots in self.refilled[:done]):
            standing = list(standing)
            for _, slots in self.refilled[:done]:
                for slot, row in slots.items():
                    if slot >= self.first_slot:
                        standing[slot - self.first_slot] = row
        return standing

    @property
    def next_slot(self) -> int:
        """The slot that the next committed row takes."""
        return self.first_slot + len(self.committed)

    def rows_of(self, forward: int) -> list[Row]:
        """The rows of a forward."""
        return self.rows[self.of_forward[forward].start : self.of_forward[forward].stop]


def account(recorded: Recorded, *, shift: int, longest: int | None) -> Account:
    """Account for every row of a request.

    Args:
        recorded: the request.
        shift: the row of slot p is fed token p + shift.
        longest: tokens that a sequence may have in this engine, where that is known.
    """
    done = Account(first_slot=len(recorded.prefix), text=_text(recorded))
    walk = _Walk(recorded, done, shift, longest)
    for forward in recorded.forwards:
        fill = walk.fills.of_forward.get(forward.number)
        done.committed_before.append(fill.first - done.first_slot if fill is not None and fill.anew else len(done.committed))
        done.phases.append(forward.info.phase)
        start = len(done.rows)
        walk.forward(forward)
        done.of_forward.append(range(start, len(done.rows)))
    walk.end()
    return done


def _text(recorded: Recorded) -> list[int]:
    """The tokens of the sequence, with those that were emitted and not run by the target any more."""
    text = list(recorded.tokens)
    if len(text) == recorded.prompt and recorded.greedy:
        text.append(recorded.greedy[-1])
    for at, emitted in zip(recorded.fills.starts, recorded.emitted, strict=True):
        for i, token in enumerate(emitted):
            if at + i == len(text):
                text.append(token)
    return text


class _Walk:
    def __init__(self, recorded: Recorded, done: Account, shift: int, longest: int | None) -> None:
        self.recorded, self.done, self.shift, self.longest = recorded, done, shift, longest
        self.rounds_committed = 0
        self.last_step: list[int] = []  # the rows of the step before, whose states the next step is handed
        self.steps: dict[int, int] = {}
        self.fills = recorded.fills
        self.root = done.first_slot - 1  # the last slot that was committed
        self.chunk = False  # the last committed rows are of a prefill that is not done

    def forward(self, forward: Forward) -> None:
        if forward.info.phase == "draft":
            self._draft(forward)
        elif forward.info.phase == "prefill":
            self._prefill(forward)
        else:
            self.chunk = False
            self._extend(forward)
            self.root = self.done.next_slot - 1

    def _prefill(self, forward: Forward) -> None:
        done, fill = self.done, self.fills.of_forward[forward.number]
        if fill.anew:
            # What a round committed without the drafter, for want of room, is run now.
            while self.rounds_committed < forward.info.round:
                done.committed.extend([ROOT] * len(self._emitted(self.rounds_committed)))
                self.rounds_committed += 1
            self.steps.pop(forward.info.round, None)
        self._commit(forward, fill.due, fill.first)
        self.chunk = forward.info.rows < fill.due
        self.root = fill.first + min(forward.info.rows, fill.due) - 1

    def _token(self, slot: int) -> int | None:
        at = slot + self.shift
        return self.done.text[at] if at < len(self.done.text) else None

    def _commit(self, forward: Forward, due: int, base: int) -> None:
        """The first ``due`` rows are committed, those of the slots from ``base`` on; what is behind them is junk in an extend and
        unaccounted in a prefill."""
        done = self.done
        extra = Kind.REJECTED if forward.info.phase == "extend" else Kind.STRAY
        self.last_step = []
        anew: dict[int, int] = {}
        for i in range(forward.info.rows):
            valid, slot, again = i < due, base + i, False
            if valid:
                again = self._stand(slot, anew)
                self.last_step = [len(done.rows)]
            token = self._token(slot) if valid else None
            done.rows.append(Row(forward.number, i, Kind.COMMITTED if valid else extra, slot, slot, token=token, again=again))
        if anew:
            done.refilled.append((forward.number, anew))
        if forward.info.phase == "prefill" and forward.info.rows > due:
            done.problems.append((forward.number, "there are more rows than the prompt has"))

    def _stand(self, slot: int, anew: dict[int, int]) -> bool:
        """The next row is that of a slot; whether the slot had one before. ``anew`` takes those that had."""
        done = self.done
        done.committed.extend([ROOT] * (slot - done.next_slot))
        if slot == done.next_slot:
            done.committed.append(len(done.rows))
            return False
        anew[slot] = len(done.rows)
        return slot < done.first_slot or done.committed[slot - done.first_slot] != ROOT

    def _extend(self, forward: Forward) -> None:
        done, before = self.done, self.rounds_committed
        if done.next_slot < self.recorded.prompt:
            done.problems.append((forward.number, "not all rows of the prompt ran before it"))
        while before + 1 < forward.info.round and self._emitted(before):
            # The drafter was left out for a whole round, and its cache lacks what that round committed.
            if before + 2 == forward.info.round:
                done.problems.append((forward.number, LEFT_OUT))
            first = done.next_slot + self.shift
            done.never_fed.setdefault(forward.number, []).append((before + 1, first, first + len(self._emitted(before)) - 1))
            done.committed.extend([ROOT] * len(self._emitted(before)))
            before = self.rounds_committed = before + 1
        emitted = self._emitted(before)
        if not emitted or forward.info.round != before + 1:
            done.problems.append((forward.number, "nothing was recorded to have been emitted in the round before it"))
            self._stray(forward)
            return
        self.rounds_committed += 1
        missing = max(0, len(emitted) - forward.info.rows)
        if missing:
            done.problems.append((forward.number, NEVER_RAN))
        ahead = self._first_that_ran(forward, emitted, missing)
        # What did not run leaves a hole, so that the slots behind it stay right.
        done.committed.extend([ROOT] * ahead)
        self._commit(forward, len(emitted) - missing, done.next_slot)
        done.committed.extend([ROOT] * (missing - ahead))

    def _emitted(self, number: int) -> list[int]:
        return self.recorded.emitted[number] if number < len(self.recorded.emitted) else []

    @staticmethod
    def _first_that_ran(forward: Forward, emitted: list[int], missing: int) -> int:
        """How many of the committed rows are missing before the ones that ran, told by the tokens that they are fed."""
        ids = forward.get("input_ids")
        if not missing or ids is None:
            return 0
        fed = [int(i) for i in ids.tolist()]
        return max(reversed(range(missing + 1)), key=lambda k: sum(a == b for a, b in zip(fed, emitted[k:], strict=False)))

    def _stray(self, forward: Forward) -> None:
        for i in range(forward.info.rows):
            self.done.rows.append(Row(forward.number, i, Kind.STRAY, self.done.next_slot + i, self.done.next_slot + i))
        self.last_step = []

    def _draft(self, forward: Forward) -> None:
        done, step, number = self.done, forward.info.step, forward.info.round
        root, chunk = self.root, self.chunk
        parents = forward.get("parents")
        handed = [ROOT] * forward.info.rows if step == 1 else list(range(forward.info.rows))
        if parents is not None:
            handed = [int(p) for p in parents.tolist()]
        due = self.steps.get(number, 0) + 1
        if chunk:
            due = step  # every chunk but the last is followed by drafts of its own, which nobody uses
        known = number == self.rounds_committed and step == due and bool(self.last_step)
        if not known:
            done.problems.append((forward.number, "it does not follow on what ran before it"))
            self._stray(forward)
            return
        if not chunk:
            self.steps[number] = step
        rows: list[int] = []
        for i, p in enumerate(handed):
            parent = self.last_step[0] if p == ROOT and len(self.last_step) == 1 else None
            if p >= 0 and p < len(self.last_step):
                parent = self.last_step[p]
            kind, token = self._draft_kind(forward, root, chunk=chunk)
            if parent is None:
                kind = Kind.STRAY
                done.problems.append((forward.number, "it names a row of the step before that there is not"))
            if parents is None and i:
                kind = Kind.STRAY
                done.problems.append((forward.number, "it has more than one row, and no tree says whose children they are"))
            rows.append(len(done.rows))
            chain = parents is None
            accepted = chain and kind is Kind.DRAFT and number < len(self.recorded.emitted) and step < len(self.recorded.emitted[number])
            done.rows.append(Row(forward.number, i, kind, root + step, root, parent, token if chain else None, accepted))
        self.last_step = rows

    def _draft_kind(self, forward: Forward, root: int, *, chunk: bool) -> tuple[Kind, int | None]:
        number, step = forward.info.round, forward.info.step
        if chunk:
            return Kind.WASTED, None
        if self.longest is not None and root + step >= self.longest:
            return Kind.BEYOND, None
        proposed = self.recorded.proposed[number] if number < len(self.recorded.proposed) else []
        if not proposed or forward.number < self.fills.last.get(number, 0):
            return Kind.UNVERIFIED, None  # behind the end, or forgotten when the request was preempted
        return Kind.DRAFT, proposed[step - 1] if step <= len(proposed) else None

    def end(self) -> None:
        done = self.done
        if done.next_slot < self.recorded.prompt:
            done.problems.append((None, "not all rows of the prompt ran"))
        for number, proposed in enumerate(self.recorded.proposed):
            if not proposed:
                continue
            depth, ran = self._depth(number, len(proposed)), self.steps.get(number, 0)
            whole = number <= self.rounds_committed and ran >= depth - 1
            if not whole and not ran and not any(proposed):
                done.undrafted.append(number)
                if not self._at_the_end(number):
                    before = max((f.number for f in self.recorded.forwards if f.info.round < number), default=0)
                    done.problems.append((before, ZEROS))
            elif not whole:
                done.problems.append((None, "fewer forwards ran than the proposals of a round need"))

    def _at_the_end(self, number: int) -> bool:
        """Whether vLLM has to leave the drafter out and proposes zeros: the sequence that was verified before, with its drafts, and the
        drafts of a round would be longer than a sequence may be (0.32.0 v1/worker/gpu_model_runner.py:4288)."""
        if self.longest is None:
            return False
        drafts = max(map(len, self.recorded.proposed))
        verified = self.recorded.prompt
        if number:
            verified = self.fills.starts[number - 1] + len(self.recorded.proposed[number - 1])
        return verified + drafts > self.longest

    def _depth(self, number: int, proposed: int) -> int:
        """Steps that the proposals of a round took."""
        if number >= len(self.recorded.tree) or not self.recorded.tree[number]:
            return proposed
        depths: list[int] = []
        for parent in self.recorded.tree[number]:
            depths.append(1 if parent == ROOT or parent >= len(depths) else depths[parent] + 1)
        return max(depths, default=0)
