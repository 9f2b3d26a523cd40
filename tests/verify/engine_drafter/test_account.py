"""The account of rows, over every shape of a run that an engine may have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.files.bundle_manifest import ForwardInfo
from eagle3_contract.verify.engine_drafter.account import ROOT, Kind, account
from eagle3_contract.verify.engine_drafter.fills import Fills, fills
from eagle3_contract.verify.engine_drafter.record import Forward


@dataclass
class Run:
    """What ``account`` reads of a request."""

    prompt: int
    tokens: list[int]
    proposed: list[list[int]]
    emitted: list[list[int]]
    forwards: list[Forward] = field(default_factory=list)
    prefix: list[int] = field(default_factory=list)
    greedy: list[int] = field(default_factory=list)
    tree: list[list[int]] = field(default_factory=list)

    @property
    def fills(self) -> Fills:
        return fills(self.forwards, prompt=self.prompt, prefix=len(self.prefix), tokens=self.tokens, emitted=self.emitted)

    def add(self, phase: str, round_: int, step: int, rows: int) -> None:
        ids = torch.zeros(rows, dtype=torch.int64)
        info = ForwardInfo(phase=phase, round=round_, step=step, rows=rows)
        self.forwards.append(Forward(len(self.forwards), info, {"input_ids": ids}))


@st.composite
def runs(draw: st.DrawFn) -> tuple[Run, int, list[int], int]:
    """(a run that is as it should be, drafts per round, rows of each chunk of the prompt, accepted drafts)."""
    drafts = draw(st.integers(1, 5))
    chunks = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    accepted = draw(st.lists(st.integers(0, drafts), max_size=8))
    prompt = sum(chunks)
    prefix = draw(st.integers(0, 6))
    text = list(range(prefix + prompt + 1 + sum(a + 1 for a in accepted)))
    run = Run(prompt=prefix + prompt, tokens=text[:-1], proposed=[], emitted=[], prefix=text[:prefix])
    for i, rows in enumerate(chunks):
        run.add("prefill", 0, 0, rows)
        for step in range(1, drafts if i < len(chunks) - 1 else 1):
            run.add("draft", 0, step, 1)
    at = run.prompt + 1
    for number, a in enumerate(accepted):
        for step in range(1, drafts):
            run.add("draft", number, step, 1)
        run.proposed.append([*text[at : at + a], *([-5] * (drafts - a))])
        run.emitted.append(text[at : at + a + 1])
        at += a + 1
        run.add("extend", number + 1, 0, drafts + 1)
    return run, drafts, chunks, sum(accepted)


@settings(max_examples=80, deadline=None)
@given(runs())
def test_every_row_has_its_place(made: tuple[Run, int, list[int], int]) -> None:
    run, drafts, chunks, accepted = made
    found = account(run, shift=1, longest=None)
    assert found.problems == []
    assert len(found.rows) == sum(f.info.rows for f in run.forwards)
    kinds = Counter(r.kind for r in found.rows)
    rounds = len(run.emitted)
    assert kinds[Kind.COMMITTED] == sum(chunks) + accepted + rounds == len(found.committed)
    assert kinds[Kind.REJECTED] == rounds * drafts - accepted
    assert kinds[Kind.WASTED] == (len(chunks) - 1) * (drafts - 1)
    assert kinds[Kind.DRAFT] == rounds * (drafts - 1)
    assert kinds[Kind.STRAY] == 0
    slots = [found.rows[c].slot for c in found.committed]
    assert slots == list(range(len(run.prefix), found.next_slot))
    told = [found.rows[c].token for c in found.committed]
    # Without a round nothing says which token came after the prompt.
    assert told == [s + 1 for s in slots] if rounds else told[:-1] == [s + 1 for s in slots[:-1]]
    for row in found.rows:
        if row.kind is Kind.DRAFT:
            assert row.parent is not None
            assert found.rows[row.parent].slot == row.slot - 1


@settings(max_examples=60, deadline=None)
@given(runs(), st.data())
def test_a_forward_that_is_gone_is_noticed(made: tuple[Run, int, list[int], int], data: st.DataObject) -> None:
    """Whichever forward of a verified round is left out, the account has a problem."""
    run, _, _, _ = made
    needed = [f.number for f in run.forwards if f.info.phase != "draft" or (f.info.round < len(run.emitted) and _of_last_chunk(run, f))]
    needed = [n for n in needed if run.forwards[n].info.round < len(run.emitted)]
    if not needed:
        return
    gone = data.draw(st.sampled_from(needed))
    left = [f for f in run.forwards if f.number != gone]
    run.forwards = [Forward(k, f.info, f.tensors) for k, f in enumerate(left)]
    assert account(run, shift=1, longest=None).problems


def _of_last_chunk(run: Run, forward: Forward) -> bool:
    """Drafts after the other chunks are used by nobody, and need not be there."""
    last = max(f.number for f in run.forwards if f.info.phase == "prefill")
    return forward.number > last


def test_rows_that_never_ran_leave_a_hole() -> None:
    run = Run(prompt=3, tokens=list(range(9)), proposed=[[4, 5]], emitted=[[4, 5, 6]])
    run.add("prefill", 0, 0, 3)
    run.add("draft", 0, 1, 1)
    run.add("extend", 1, 0, 1)
    run.forwards[2] = Forward(2, run.forwards[2].info, {"input_ids": torch.tensor([6])})
    found = account(run, shift=1, longest=None)
    assert found.committed == [0, 1, 2, ROOT, ROOT, 4]
    assert [text for _, text in found.problems] == ["committed rows never ran from the target's states"]
