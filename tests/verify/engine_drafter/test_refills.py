"""Requests that are preempted and run again: nothing of it is a finding, and what is wrong behind it is found where it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contract.files.bundle_manifest import ForwardInfo
from contract.findings import ExitCode
from eagle3_contract.verify.engine_drafter.fills import Fill, fills
from verify.engine_drafter.conftest import Run
from verify.engine_drafter.simulated import Request, simulate
from verify.engine_drafter.simulated_engine import PROMPT, Engine

TREE = {"style": "sglang", "topk": 4, "drafts": 7}
AGAIN = "run again after a preemption (among the committed)"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"style": "sglang"},
        {"preempted": (4, 4, 4)},
        {"preempted": (0, 2, 6)},
        {"chunk": 10},
        {"chunk": 10, "kept": 16},
        {"kept": 16, "preempted": (3, 3, 5)},
        {"dtype": torch.bfloat16},
        TREE,
    ],
)
def test_a_preempted_request_is_clean(run: Run, how: dict[str, object]) -> None:
    engine = Engine(**{"tokens": 64, "preempted": (4,), **how})
    judged = run(engine)
    assert judged.failed == [], judged.text
    assert judged.measurement["rows"][AGAIN] > 0
    assert "unaccounted" not in judged.measurement["rows"]
    assert judged.exit_code is ExitCode.KEPT


def test_as_many_rows_run_again_as_there_were(run: Run) -> None:
    ((_, request),) = simulate(Engine(tokens=64, preempted=(4,)), 1)
    rows = next(f.rows for f in request.forwards if f.phase == "prefill" and f.round)
    judged = run(Engine(tokens=64, preempted=(4,)))
    assert judged.measurement["rows"][AGAIN] == rows - 1
    assert judged.measurement["rows"]["draft never verified"] == _unverified(request)


def _unverified(request: Request) -> int:
    last = max(k for k, f in enumerate(request.forwards) if f.phase == "prefill")
    drafts = [(k, f) for k, f in enumerate(request.forwards) if f.phase == "draft"]
    return sum((f.round == 4 and k < last) or f.round == len(request.emitted) for k, f in drafts)


def test_a_token_that_no_round_gave_is_no_licence(run: Run) -> None:
    """Without the prefill that gives it, a gap in the text is found."""

    def gap(_sample: str, tensors: dict[str, torch.Tensor]) -> None:
        emitted = tensors["round.emitted"]
        emitted[5:] = torch.where(emitted[5:] >= 0, (emitted[5:] + 1) % 2048, emitted[5:])

    judged = run(Engine(tokens=64, preempted=(4,)), change=gap)
    assert "engine.verification" in judged.rules


@pytest.mark.parametrize("chunk", [0, 10])
def test_stale_rows_are_found_behind_a_refill(run: Run, chunk: int) -> None:
    """A fault that needs accepted drafts is told by its own rule, behind a preemption as well."""
    check = run(Engine(tokens=64, preempted=(4,), chunk=chunk, fault="no-rewrite")).one("engine.draft-kv")
    assert "as they were drafted" in check.message


def refilled(tensors: dict[str, torch.Tensor], by: float) -> None:
    """What reaches fc in the refill is not what was captured before, by this share of its length; fc and all behind it are not touched."""
    k = next(int(n.split(".")[1]) for n in tensors if n.endswith(".fc_in") and tensors[n].shape[0] > PROMPT)
    tensors[f"forward.{k}.fc_in"][3] *= 1 + by


@pytest.mark.parametrize(("by", "kept"), [(1e-6, True), (0.01, False)])
def test_states_that_were_run_again_may_be_rounded_otherwise(run: Run, by: float, kept: bool) -> None:
    judged = run(Engine(tokens=64, preempted=(4,)), change=lambda _, tensors: refilled(tensors, by))
    assert ("engine.fc-input" not in judged.rules) is kept, judged.text


def test_a_first_run_is_compared_bit_for_bit(run: Run) -> None:
    judged = run(Engine(tokens=64), change=lambda _, t: t["forward.0.fc_in"][3].mul_(1 + 1e-6))
    assert judged.rules == {"engine.fc-input"}


@dataclass(frozen=True)
class Forward:
    """What ``fills`` reads of a forward."""

    number: int
    info: ForwardInfo
    held: dict[str, list[int]] = field(default_factory=dict)

    def ints(self, name: str) -> list[int] | None:
        return self.held.get(name)


def forwards(rows: Sequence[tuple[str, int, int, int]], *, positions: bool = True) -> list[Forward]:
    """(phase, round, first slot, rows) of each, in a text whose token t is t."""
    return [
        Forward(
            k,
            ForwardInfo(phase=phase, round=number, step=0, rows=n),  # type: ignore[arg-type]
            {"input_ids": list(range(first + 1, first + n + 1)), **({"position_ids": list(range(first, first + n))} if positions else {})},
        )
        for k, (phase, number, first, n) in enumerate(rows)
    ]


@given(st.booleans(), st.integers(1, 6), st.integers(0, 3), st.integers(1, 8))
def test_where_refills_begin(positions: bool, prompt: int, kept: int, size: int) -> None:
    """Cut into chunks or whole, from the first slot or from what a cache kept, told by positions or by rows alone."""
    kept = min(kept, prompt)
    rows = [("prefill", 0, 0, prompt), ("extend", 1, prompt, 3)]
    known = prompt + 3  # the prompt's token, and two of the round
    at = kept
    while at < known:
        rows.append(("prefill", 1, at, min(size, known - at)))
        at += size
    found = fills(forwards(rows, positions=positions), prompt=prompt, prefix=0, tokens=list(range(40)), emitted=[[5, 6], [7]])
    assert found.of_forward[0] == Fill(0, prompt, anew=False)
    assert found.of_forward[2] == Fill(kept, known - kept, anew=True)
    assert [found.of_forward[k].first for k in sorted(found.of_forward)][1:] == list(range(kept, known, size))
    assert found.starts == [prompt + 1, known + 1]


def test_a_refill_is_itself_preempted() -> None:
    rows = [("prefill", 0, 0, 4), ("prefill", 0, 0, 2), ("prefill", 0, 0, 5), ("extend", 1, 5, 2)]
    found = fills(forwards(rows), prompt=4, prefix=0, tokens=list(range(40)), emitted=[[6, 7]])
    assert [(f.first, f.due, f.anew) for f in found.of_forward.values()] == [(0, 4, False), (0, 5, True), (0, 5, True)]
    assert found.starts == [6]


def test_positions_that_start_over_in_a_chunk_are_no_refill() -> None:
    """The tokens that are fed say which slots they are, so that positions stay something to be judged."""
    made = forwards([("prefill", 0, 0, 4), ("prefill", 0, 4, 4)])
    made[1].held["position_ids"] = [0, 1, 2, 3]
    assert fills(made, prompt=8, prefix=0, tokens=list(range(40)), emitted=[]).of_forward[1] == Fill(4, 4, anew=False)
