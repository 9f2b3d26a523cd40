"""Rows of a cached prefix come from an earlier request of the bundle; without one the comparison says that it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from contract.findings import ExitCode, Status
from verify.engine_drafter.conftest import Judged, judge
from verify.engine_drafter.simulated import Request, Written, cached, simulate, written
from verify.engine_drafter.simulated_engine import Engine

CACHED = 12
"""Tokens of the prefix."""
ENGINE = Engine(chunk=CACHED, tokens=60)


@pytest.fixture(scope="module")
def request_with_chunks() -> Request:
    torch.set_num_threads(1)
    return simulate(ENGINE, 1)[0][1]


def judged(tmp_path: Path, *requests: Written) -> Judged:
    return judge(written(tmp_path / "bundle", ENGINE, requests))


def whole(request: Request, id_: str = "plain") -> Written:
    return Written(id_, request.held(), request.forwards)


def test_the_prefix_is_borrowed(tmp_path: Path, request_with_chunks: Request) -> None:
    found = judged(tmp_path, whole(request_with_chunks), cached(request_with_chunks, CACHED))
    assert found.exit_code is ExitCode.KEPT, found.text
    assert found.measurement["requests"] == 2


def test_without_the_earlier_request_it_is_not_known(tmp_path: Path, request_with_chunks: Request) -> None:
    found = judged(tmp_path, cached(request_with_chunks, CACHED))
    assert found.exit_code is ExitCode.UNKNOWN, found.text
    unknown = next(c for c in found.checks if c.rule == "engine.drafter-forward")
    assert unknown.status is Status.UNKNOWN
    assert "cached prefix" in unknown.message
    rows = found.measurement["rows"]
    assert unknown.actual == sum(rows.get(kind, 0) for kind in ("committed", "draft", "draft never verified"))
    passed = {c.rule for c in found.checks if c.status is Status.PASSED}
    assert passed >= {"engine.input-ids", "engine.positions", "engine.feedback", "engine.fc-output", "engine.logits"}


def test_another_request_with_other_tokens_is_no_source(tmp_path: Path, request_with_chunks: Request) -> None:
    other = simulate(ENGINE, 2)[1][1]
    found = judged(tmp_path, whole(other), cached(request_with_chunks, CACHED))
    assert found.exit_code is ExitCode.UNKNOWN


def test_a_prefix_that_the_rows_do_not_see(tmp_path: Path, request_with_chunks: Request) -> None:
    """The engine computes the rows behind the prefix as if it were not there."""
    alone = simulate(Engine(chunk=CACHED, tokens=60, fault="prefix-not-seen"), 1)[0][1]
    found = judged(tmp_path, whole(request_with_chunks), cached(alone, CACHED))
    assert found.rules == {"engine.draft-kv"}, found.text
    assert "no row of the cached prefix" in found.failed[0].message
    assert found.failed[0].evidence["first"]["token"] == CACHED
