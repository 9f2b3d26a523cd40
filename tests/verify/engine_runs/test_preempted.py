"""Rounds around a preemption: the token that no round gave is none of theirs, and drafts that were forgotten are no round."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from contract.findings import ExitCode, Status
from verify.engine_runs.conftest import NEW, Demo
from verify.engine_runs.simulate import Engine, Request
from verify.scenario import dump, failed

PREDICTED = "acceptance.predicted"
PREEMPTED = {0: (2,), 1: (3, 3), 2: (0,), 5: (1, 4)}
"""Requests by number, and the rounds that they are preempted in."""


def run_of(demo: Demo, engine: Engine) -> list[Request]:
    return [
        engine.generate(f"r{i}", demo.prompt(i), NEW, sample=s.name, preempted=PREEMPTED.get(i, ())) for i, s in enumerate(demo.samples)
    ]


@pytest.mark.parametrize("chunk", [None, 11])
def test_preempted_requests_are_counted_as_they_were(demo: Demo, tmp_path: Path, chunk: int | None) -> None:
    requests = run_of(demo, dataclasses.replace(demo.engine, chunk=chunk))
    report = demo.verify(demo.write(tmp_path / "bundle", requests))
    assert failed(report) == set(), dump(report)
    assert report.exit_code is ExitCode.KEPT, dump(report)
    (check,) = [c for c in report.checks if c.rule == PREDICTED]
    assert "all proposals are equal" in check.message
    measured = report.measurements["acceptance"]
    rounds = [len(e) for r in requests for e in r.emitted]
    assert measured["measured"]["length"] == pytest.approx(sum(rounds) / len(rounds))
    # Every token behind a prompt comes from its prefill, a round, or a prefill after a preemption.
    for i, request in enumerate(requests):
        given = 1 + len(PREEMPTED.get(i, ()))
        assert len(request.text) == request.prompt_tokens + given + sum(map(len, request.emitted))


def test_wrong_drafts_behind_a_preemption_are_located(demo: Demo, tmp_path: Path) -> None:
    """Behind its preemption in round 2 the first request drafts something else: the round, and where it stands in the text, are named."""
    engine = dataclasses.replace(demo.engine, propose=lambda number, tokens: [7] * len(tokens) if number > 2 else tokens)
    requests = run_of(demo, engine)
    report = demo.verify(demo.write(tmp_path / "bundle", requests))
    (check,) = [c for c in report.checks if c.rule == PREDICTED and c.status is Status.FAILED]
    assert check.evidence["first_parting"]["round"] == 3
    start = requests[0].prompt_tokens + 2 + sum(map(len, requests[0].emitted[:3]))
    assert check.evidence["first_parting"]["token"] == start


def test_a_gap_without_its_prefill_is_found(demo: Demo, tmp_path: Path) -> None:
    """The same text without the forward that gave the token: the rounds are not those of the text."""
    request = demo.engine.generate("r0", demo.prompt(0), NEW, sample=demo.samples[0].name, preempted=(2,))
    gone = next(k for k, f in enumerate(request.forwards) if f.phase == "prefill" and f.round)
    tensors = {}
    for name, x in request.tensors.items():
        if not name.startswith("forward."):
            tensors[name] = x
        elif (k := int(name.split(".")[1])) != gone:
            tensors[f"forward.{k - (k > gone)}.{name.split('.')[2]}"] = x
    left = [f for k, f in enumerate(request.forwards) if k != gone]
    spoilt = dataclasses.replace(request, tensors=tensors, forwards=left)
    report = demo.verify(demo.write(tmp_path / "bundle", [spoilt, *demo.plain[1:]]))
    assert {"engine.verification", "engine.rows-accounted"} <= failed(report), dump(report)
