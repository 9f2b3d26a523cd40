"""A waiver covers the failure that it names, where it names it and while it lasts, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from contract.errors import InputRejected
from contract.findings import Check, ExitCode, Status, Where, check_from_error
from contract.report import FORMATS, render
from contract.reporting import Report
from contract.waivers import apply_waivers

from .build import LOUD, MEASURED, OTHER, SILENT, TODAY, failed, load, report, scope, waiver


def statuses(of: Report) -> dict[str, Status]:
    return {check.rule: check.status for check in of.checks}


def test_a_waived_failure_counts_as_passed_and_is_shown_in_every_format(tmp_path: Path) -> None:
    judged = apply_waivers(report(failed()), load(tmp_path, waiver()), today=TODAY)
    check = judged.checks[0]
    assert (judged.exit_code, check.status) == (ExitCode.KEPT, Status.WAIVED)
    assert check.evidence["waiver"] == {
        "reason": "a readme that no engine opens",
        "expires": "2026-12-31",
        "where": {"file": str(tmp_path / "contract.waivers.yaml"), "line": 3, "column": 3, "key": "waivers[0].rule"},
    }
    assert judged.provenance["waivers"]["count"] == 1
    for form in FORMATS:
        assert "waived" in render(judged, form).lower(), form
    for form in ("text", "markdown", "github", "html", "json", "junit", "sarif"):
        assert "readme that no engine opens" in " ".join(render(judged, form).split()), form


def test_the_same_failure_without_the_waiver_fails(tmp_path: Path) -> None:
    judged = apply_waivers(report(failed()), load(tmp_path), today=TODAY)
    assert judged.exit_code is ExitCode.VIOLATED


@pytest.mark.parametrize(("day", "code"), [(date(2026, 12, 31), ExitCode.KEPT), (date(2027, 1, 1), ExitCode.VIOLATED)])
def test_the_last_day_is_included_and_an_expired_waiver_is_a_failure_of_its_own(tmp_path: Path, day: date, code: ExitCode) -> None:
    waivers = load(tmp_path, waiver())
    judged = apply_waivers(report(failed()), waivers, today=day)
    assert judged.exit_code is code
    expired = next(c for c in judged.checks if c.rule == "waivers.expired")
    assert expired.status is (Status.PASSED if code is ExitCode.KEPT else Status.FAILED)
    passing = apply_waivers(report(LOUD.passed("right")), waivers, today=day)
    assert passing.exit_code is code


@pytest.mark.parametrize(
    "check",
    [
        check_from_error(InputRejected("bad", rule=LOUD.id, fix="mend")),
        replace(failed(), rejected=True),
        LOUD.undecided("who knows"),
    ],
)
def test_what_was_rejected_or_undecided_cannot_be_waived(tmp_path: Path, check: Check) -> None:
    before = report(check)
    judged = apply_waivers(before, load(tmp_path, waiver()), today=TODAY)
    assert judged.exit_code is before.exit_code
    assert judged.checks[0] == check


def test_an_unused_waiver_warns_and_one_that_was_not_needed_does_not(tmp_path: Path) -> None:
    unused = apply_waivers(report(LOUD.passed("right")), load(tmp_path, waiver()), today=TODAY)
    found = next(c for c in unused.checks if c.rule == "waivers.unused")
    assert (found.status, found.required, unused.exit_code) == (Status.UNKNOWN, False, ExitCode.KEPT)
    waivers = load(tmp_path, waiver(rule="reading.window", measured=MEASURED, scope=scope("vllm")))
    other = apply_waivers(report(LOUD.passed("right")), waivers, today=TODAY)
    assert statuses(other)["waivers.unused"] is Status.SKIPPED
    elsewhere = apply_waivers(report(LOUD.passed("x"), failed(SILENT, engine="sglang==0.5.23")), waivers, today=TODAY)
    assert (statuses(elsewhere)["waivers.unused"], elsewhere.exit_code) == (Status.SKIPPED, ExitCode.VIOLATED)


@pytest.mark.parametrize(
    ("engine", "versions", "named", "waived"),
    [
        ("sglang", "any", "sglang==0.5.23", True),
        ("sglang", "==0.5.23", "sglang==0.5.23", True),
        ("sglang", "==0.5.22", "sglang==0.5.23", False),
        ("sglang", ">=0.5,<0.5.23", "sglang==0.5.23", False),
        ("sglang", ">=0.5,<0.6", "sglang==0.5.23", True),
        ("sglang", ">=0.5", "sglang", False),
        ("vllm", "any", "sglang==0.5.23", False),
        ("vllm[v1]", "any", "vllm[v2]==0.32.0", False),
        ("vllm[v2]", ">0.31", "vllm[v2]==0.32.0", True),
        ("vllm", ">0.31", "vllm[v2]==0.32.0", True),
        ("any", "any", "vllm[v2]==0.32.0", True),
        ("sglang", "any", None, False),
    ],
)
def test_engine_and_versions(tmp_path: Path, engine: str, versions: str, named: str | None, waived: bool) -> None:
    waivers = load(tmp_path, waiver(rule="reading.*", measured=MEASURED, scope=scope(engine, versions)))
    judged = apply_waivers(report(failed(SILENT, engine=named)), waivers, today=TODAY)
    assert (judged.checks[0].status is Status.WAIVED) is waived


def test_a_capture_says_which_engine_its_states_come_from(tmp_path: Path) -> None:
    waivers = load(tmp_path, waiver(rule="reading.window", measured=MEASURED, scope=scope("sglang", "==0.5.23")))
    for capture, waived in (
        ({"engine": "transformers==5.24.0", "imitates": "sglang==0.5.23"}, True),
        ({"engine": "sglang==0.5.23"}, True),
        ({"engine": "transformers==5.24.0"}, False),
    ):
        judged = apply_waivers(report(failed(SILENT), provenance={"capture": capture}), waivers, today=TODAY)
        assert (judged.checks[0].status is Status.WAIVED) is waived


@pytest.mark.parametrize(
    ("narrow", "where", "waived"),
    [
        ({"slot": 1}, Where(slot=1), True),
        ({"slot": 1}, Where(slot=2), False),
        ({"slot": 0}, None, False),
        ({"tensor": "fc.weight"}, Where(tensor="fc.weight"), True),
        ({"tensor": "fc.weight"}, Where(tensor="fc.bias"), False),
        ({"file": "README.md"}, Where(file="README.md", line=4), True),
        ({"key": "rope_theta", "file": "config.json"}, Where(file="config.json", key="rope_thet"), False),
    ],
)
def test_a_scope_can_be_narrowed_to_a_place(tmp_path: Path, narrow: dict[str, object], where: Where | None, waived: bool) -> None:
    judged = apply_waivers(report(failed(where=where)), load(tmp_path, waiver(scope=scope(**narrow))), today=TODAY)
    assert (judged.checks[0].status is Status.WAIVED) is waived


def test_one_waiver_leaves_the_other_failures(tmp_path: Path) -> None:
    waivers = load(tmp_path, waiver(rule="reading.window", measured=MEASURED))
    judged = apply_waivers(report(failed(SILENT), failed(OTHER), failed()), waivers, today=TODAY)
    assert [c.status for c in judged.checks[:3]] == [Status.WAIVED, Status.FAILED, Status.FAILED]


def test_a_check_more_silent_than_its_rule_needs_a_measurement(tmp_path: Path) -> None:
    silent = replace(failed(), dimension="weights")
    assert apply_waivers(report(silent), load(tmp_path, waiver()), today=TODAY).exit_code is ExitCode.VIOLATED
    assert apply_waivers(report(silent), load(tmp_path, waiver(measured=MEASURED)), today=TODAY).exit_code is ExitCode.KEPT
