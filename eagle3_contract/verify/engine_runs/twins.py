"""The same prompt in the plain run and in a further one: which rows had the same tokens before them, and how far apart they are.

A row of the target is comparable if all tokens up to it are equal. A row that the drafter ran from the target's states is comparable if
the text is equal up to the token that it is due to be fed (what it was fed is the engine's doing); a row of a draft step if it follows on
the same committed row and the round was fed the same drafts before it.

Legend: T rows, G width of a tensor, V vocabulary, N rows in common.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import torch
from torch import Tensor

from contract.files.bundle import Bundle, BundleRequest
from contract.files.torch_tensors import load_tensor
from contract.numerics.sinks import RowSummary, summarise_errors
from contract.numerics.statistics import Rows, compare
from eagle3_contract.verify.engine_drafter.account import Account, Kind, account
from eagle3_contract.verify.engine_drafter.record import Recorded
from eagle3_contract.verify.engine_runs.rows import PLAIN

FC_OUT: Final = "fc_out"
FINAL_NORMED: Final = "final_normed"
LOGITS: Final = "logits"
OF_DRAFTER: Final = (FC_OUT, FINAL_NORMED, LOGITS)
_DRAFTS: Final = frozenset({Kind.DRAFT, Kind.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is: position of its token and what was fed there, and for the drafter's rows round, step and number of the forward (in
    the further run; ``plain_token`` is what the plain run's drafter was fed)."""

    row: int
    token: int
    plain_token: int | None = None
    round: int | None = None
    step: int | None = None
    forward: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """One tensor in two runs: per-row figures of N rows, the plain run as the reference; ``places`` says which rows."""

    name: str
    rows: Rows
    places: Sequence[Place]

    @property
    def summary(self) -> RowSummary:
        return summarise_errors(self.rows.error, self.rows.norm_a, self.rows.norm_b)

    @property
    def equal_rows(self) -> int:
        """Rows without any difference."""
        return int((self.rows.error == 0).sum())


class Told:
    """One request with its rows accounted for."""

    def __init__(self, request: BundleRequest, *, shift: int, longest: int | None) -> None:
        self.request, self.recorded, self._shift, self._longest = request, Recorded(request), shift, longest

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def run(self) -> str:
        return self.request.info.run

    @cached_property
    def account(self) -> Account:
        return account(self.recorded, shift=self._shift, longest=self._longest)

    @property
    def first(self) -> int:
        """Position of the first row: the length of the cached prefix."""
        return len(self.recorded.prefix)

    @property
    def text(self) -> list[int]:
        """Every token that is known, from position 0 on."""
        return self.account.text

    @cached_property
    def chunks(self) -> list[range]:
        """Positions of the rows that each forward of the prompt ran; one range where the prompt was not cut."""
        of_forward = self.recorded.fills.of_forward
        first = next((k for k, fill in of_forward.items() if fill.anew), None)
        rows = {k: self.recorded.forwards[k].info.rows for k in of_forward}
        return [range(f.first, f.first + rows[k]) for k, f in of_forward.items() if first is None or k < first]

    def about(self, row: int) -> str:
        """What is special about a row, in words to append; empty for an ordinary one."""
        said = []
        if self.first and row >= self.first:
            nth = row - self.first
            what = "the first row" if not nth else f"row {nth}"
            said.append(f"{what} behind a cached prefix of {self.first} tokens")
        if len(self.chunks) > 1:
            for n, chunk in enumerate(self.chunks):
                if row in chunk:
                    edge = {chunk.start: "the first row of ", chunk.stop - 1: "the last row of "}.get(row, "in ")
                    said.append(f"{edge}chunk {n} of {len(self.chunks)} (rows {chunk.start} to {chunk.stop - 1})")
        prompt = self.request.info.prompt_tokens
        if row >= prompt:
            said.append(f"generated token {row - prompt}")
        return f", {', '.join(said)}" if said else ""

    @cached_property
    def drafter_rows(self) -> dict[Hashable, tuple[int, int, Place]]:
        """Forward and place in it of every comparable row of the drafter, by what it was computed from; of several the last."""
        found: dict[Hashable, tuple[int, int, Place]] = {}
        for at, row in enumerate(self.account.rows):
            forward = self.recorded.forwards[row.forward]
            committed = row.kind is Kind.COMMITTED
            if (not committed and row.kind not in _DRAFTS) or row.root + self._shift >= len(self.text):
                continue
            ids = forward.get("input_ids")
            fed = self.text[row.root + self._shift] if ids is None else int(ids[row.at])
            key: Hashable = (row.root,) if committed else (row.root, self._drafted(at))
            place = Place(row.slot, fed, round=forward.info.round, step=forward.info.step, forward=row.forward)
            found[key] = (row.forward, row.at, place)
        return found

    def _drafted(self, at: int) -> Hashable:
        """What the steps of a round were fed up to a row: all rows of each step, since branches may share a cache, and which row it is."""
        row = self.account.rows[at]
        info = self.recorded.forwards[row.forward].info
        steps: list[Hashable] = []
        for k in range(row.forward, -1, -1):
            earlier = self.recorded.forwards[k]
            if earlier.info.phase != "draft" or earlier.info.round != info.round:
                break
            ids, parents = earlier.get("input_ids"), earlier.get("parents")
            if ids is None:
                return object()  # not known: equal to nothing
            steps.append((*ids.tolist(), None, *(() if parents is None else parents.tolist())))
        return (row.at, tuple(steps))

    def drafter_tensor(self, forward: int, at: int, name: str) -> Tensor | None:
        """One row [G] of a tensor of a forward; None if it was not recorded for that row."""
        held = self.recorded.forwards[forward].get(name)
        if held is None:
            return None
        if name != LOGITS:
            return held[at]
        which = self.recorded.forwards[forward].get("logit_rows")
        rows = list(range(len(held))) if which is None else which.tolist()
        return held[rows.index(at)] if at in rows else None

    def tensor(self, name: str) -> Tensor | None:
        """A tensor [T, G] of the target's rows; None if it was not recorded."""
        ref = self.request.tensors.get(name)
        return None if ref is None else load_tensor(ref)


class Twins:
    """A prompt in the plain run and in a further one."""

    def __init__(self, plain: Told, other: Told, shift: int) -> None:
        self.plain, self.other, self._shift = plain, other, shift

    @cached_property
    def common(self) -> int:
        """Leading tokens that both texts have in common."""
        a, b = self.plain.text, self.other.text
        return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

    def target_tensor(self, name: str) -> Apart | None:
        """A tensor of the target's rows, on the rows in common; None if a side lacks it or there is no such row."""
        ours, theirs = self.plain.tensor(name), self.other.tensor(name)
        if ours is None or theirs is None:
            return None
        start = max(self.plain.first, self.other.first)
        end = min(self.common, self.plain.first + len(ours), self.other.first + len(theirs))
        if end <= start:
            return None
        a = theirs[start - self.other.first : end - self.other.first]
        b = ours[start - self.plain.first : end - self.plain.first]
        return Apart(name, _rows(a, b), [Place(p, self.plain.text[p]) for p in range(start, end)])

    def drafter_tensor(self, name: str) -> Apart | None:
        """A tensor of the drafter's rows, as ``target_tensor``; ``fc_out`` of the rows that are fed from the target's states."""
        a, b, places = [], [], []
        mine = self.plain.drafter_rows
        for key, (forward, at, place) in self.other.drafter_rows.items():
            root = key[0] if isinstance(key, tuple) else -1
            if key not in mine or root + self._shift >= self.common:
                continue
            x, y = self.other.drafter_tensor(forward, at, name), self.plain.drafter_tensor(*mine[key][:2], name)
            if x is not None and y is not None and x.shape == y.shape:
                a.append(x)
                b.append(y)
                places.append(replace(place, plain_token=mine[key][2].token))
        if not a:
            return None
        return Apart(name, _rows(torch.stack(a), torch.stack(b)), places)


def twins(bundle: Bundle, *, shift: int, longest: int | None) -> Iterator[Twins]:
    """Every request of a further run with the plain run's request of the same prompt, in the bundle's order.

    A second plain request of the same prompt counts as a further run. Requests without a plain twin are passed over (see ``alone``).
    """
    plain: dict[tuple[int, ...], Told] = {}
    rest: list[tuple[tuple[int, ...], Told]] = []
    for request in bundle.requests:
        told = Told(request, shift=shift, longest=longest)
        key = tuple(told.recorded.tokens[: request.info.prompt_tokens])
        if request.info.run == PLAIN and key not in plain:
            plain[key] = told
        else:
            rest.append((key, told))
    for key, told in rest:
        if key in plain:
            yield Twins(plain[key], told, shift)


def alone(bundle: Bundle) -> list[str]:
    """Ids of requests of further runs whose prompt is in no plain request."""
    prompts = [(r, tuple(Recorded(r).tokens[: r.info.prompt_tokens])) for r in bundle.requests]
    plain = {key for r, key in prompts if r.info.run == PLAIN}
    return [r.id for r, key in prompts if r.info.run != PLAIN and key not in plain]


def _rows(a_NG: Tensor, b_NG: Tensor) -> Rows:
    """Per-row figures; columns that are -inf on both sides are no values (a draft vocabulary spread over the target's)."""
    if a_NG.shape[1] and bool(torch.isneginf(b_NG).any()):
        absent_G = torch.isneginf(a_NG).all(0) & torch.isneginf(b_NG).all(0)
        a_NG, b_NG = a_NG[:, ~absent_G], b_NG[:, ~absent_G]
    return compare(a_NG, b_NG, histogram=False).rows


def runs_of(found: Sequence[Twins]) -> Mapping[str, list[Twins]]:
    """The twins by the name of the further run, in the order of their first appearance."""
    runs: dict[str, list[Twins]] = {}
    for pair in found:
        runs.setdefault(pair.other.run, []).append(pair)
    return runs
