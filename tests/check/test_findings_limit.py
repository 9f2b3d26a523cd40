"""A checkpoint with a million faults makes a report of as many findings as the limit allows, and says that there are more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from factory import pair

from contract import check
from contract.errors import LimitExceeded
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, ExitCode, Rule, Severity, Status
from contract.limits import DEFAULT_LIMITS
from contract.reporting import within_findings
from contract.requests import CheckRequest
from eagle3_contract.check.run import check as run
from eagle3_contract.verify.collect import Findings, Stopped

MANY = [30_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
RULE = Rule(id="a.b", title="t", severity=Severity.ERROR, dimension="files", why="w", remedy="r")


def drafter_with(folder: Path, entries: str, data: int, extra: str = "extra.safetensors") -> str:
    """A drafter that keeps its contract, and a second weight file of many tensors."""
    spec = pair().write(folder)
    header = ("{" + entries + "}").encode()
    with (folder / extra).open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + data)
    return str(spec)


def the_limit(report_checks: list[Check]) -> Check:
    (found,) = [c for c in report_checks if "exceeds the limit findings" in c.message and c.message.startswith("the report")]
    return found


@pytest.mark.parametrize("count", MANY)
def test_tensors_that_nobody_listed(tmp_path: Path, count: int) -> None:
    entries = ",".join(f'"t{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(count))
    report = check(drafter_with(tmp_path, entries, count))
    assert report.exit_code is ExitCode.UNUSABLE
    last = the_limit(list(report.checks))
    assert last is report.checks[-1]
    assert last.message == "the report exceeds the limit findings: 10001 > 10000"
    told = [c for c in report.checks if c.status is not Status.PASSED]
    assert len(told) == DEFAULT_LIMITS.findings + 1
    assert {c.rule for c in told} >= {"tensors.unexpected", "files.extra-weights"}


@pytest.mark.parametrize("count", MANY)
def test_tensors_of_no_dtype(tmp_path: Path, count: int) -> None:
    entries = ",".join(f'"t{i}":{{"dtype":"X{i % 10}","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(count))
    spec = drafter_with(tmp_path, entries, count)
    opened = Checkpoint.open(tmp_path, strict=False)
    assert len(opened.problems) <= DEFAULT_LIMITS.findings + 3, "the rest is not even made"
    with pytest.raises(LimitExceeded) as raised:
        opened.raise_if_rejected()
    assert (raised.value.limit, raised.value.allowed, raised.value.actual) == ("findings", 10_000, 10_001)
    report = check(spec)
    assert report.exit_code is ExitCode.UNUSABLE
    assert len([c for c in report.checks if c.status is not Status.PASSED]) == DEFAULT_LIMITS.findings + 1


def test_an_index_that_lists_what_is_not_there(tmp_path: Path) -> None:
    pair().write(tmp_path)
    weight_map = {f"t{i}": "model.safetensors" for i in range(50)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    limits = DEFAULT_LIMITS.lowered(findings=20)
    assert sum(p.error is not None for p in Checkpoint.open(tmp_path, strict=False, limits=limits).problems) == 1
    assert all(p.error is None for p in Checkpoint.open(tmp_path, strict=False).problems)


@pytest.mark.parametrize(("findings", "code"), [(3, ExitCode.UNUSABLE), (4, ExitCode.VIOLATED)])
def test_the_last_finding_that_fits(tmp_path: Path, findings: int, code: ExitCode) -> None:
    """The clean twin has exactly as many findings as the limit allows."""
    entries = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}'
    spec = drafter_with(tmp_path, entries, 2)
    without = run(CheckRequest(spec=spec))
    told = [c for c in without.checks if c.status is not Status.PASSED]
    limits = DEFAULT_LIMITS.lowered(findings=len(told) - (4 - findings))
    report = run(CheckRequest(spec=spec, limits=limits))
    assert report.exit_code is code
    kept = [c for c in report.checks if c.status is not Status.PASSED]
    assert kept[: limits.findings] == told[: limits.findings], "what was found so far is reported"
    assert (len(kept) == limits.findings + 1) == (code is ExitCode.UNUSABLE)


def test_passed_checks_do_not_count() -> None:
    limits = DEFAULT_LIMITS.lowered(findings=1)
    passed = [RULE.passed(str(i)) for i in range(5)]
    assert list(within_findings([*passed, RULE.failed("x")], limits)) == [*passed, RULE.failed("x")]
    *_, last = within_findings([*passed, RULE.failed("x"), RULE.failed("y"), RULE.failed("z")], limits)
    assert (last.rejected, last.message) == (True, "the report exceeds the limit findings: 2 > 1")


def test_verify_stops_too() -> None:
    found = Findings(limits=DEFAULT_LIMITS.lowered(findings=2))
    found.add(RULE.failed("x"), RULE.passed("p"), RULE.failed("y"))
    with pytest.raises(Stopped, match="at the limit findings"):
        found.add(RULE.failed("z"))
    assert [c.rejected for c in found.checks] == [False, False, False, True]
