"""Requests that go on behind a sample's prompt, further runs and cached prefixes: every row is used or accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contract.findings import Check, ExitCode, Status
from contract.reporting import Report
from verify.engine_runs.conftest import Demo
from verify.engine_runs.simulate import Request
from verify.scenario import dump, failed

Rewrite = Callable[[Callable[[Request], Request | None]], Path]


def only(report: Report, rule: str) -> Check:
    (found,) = [c for c in report.checks if c.rule == rule]
    return found


def without_boundaries(request: Request) -> Request:
    for name in list(request.tensors):
        if name.startswith(("boundary.", "final_norm")):
            del request.tensors[name]
    return request


@pytest.fixture(scope="session")
def clean_report(demo: Demo, clean: Path) -> Report:
    return demo.verify(clean)


def test_generated_text_is_kept_and_every_row_is_counted(demo: Demo, clean_report: Report) -> None:
    assert clean_report.exit_code is ExitCode.KEPT, dump(clean_report)
    covered, used = only(clean_report, "capture.rows-covered"), only(clean_report, "capture.rows-used")
    rows = sum(len(r.text) - 1 for r in demo.plain)
    common = [next(i for i, (a, b) in enumerate(zip(r.text, s.input_ids_T.tolist(), strict=False)) if a != b)
              for r, s in zip(demo.plain, demo.samples, strict=True)]  # fmt: skip
    assert covered.status is Status.UNKNOWN
    assert not covered.required
    assert (covered.expected, covered.actual) == (sum(s.tokens for s in demo.samples), sum(common))
    assert used.status is Status.PASSED
    assert used.evidence["rows"] == rows
    assert used.evidence["used"] == {
        "compared with training": sum(common),
        "compared with the request's own boundaries": rows - sum(common),
    }
    prompts = [c for c in clean_report.checks if c.rule == "capture.prompt"]
    assert [c.evidence["in_common"] for c in prompts] == common
    assert [c.evidence["prompt"] for c in prompts] == [24] * len(prompts)


def test_claims_are_about_whole_samples(demo: Demo, clean_report: Report) -> None:
    """The accuracy that training claims is counted over the samples' own texts, whatever the engine wrote."""
    alone = demo.verify(Path(), capture=None)
    claims = [(c.message, c.status) for c in alone.checks if c.rule == "accuracy.claim"]
    assert claims
    assert [(c.message, c.status) for c in clean_report.checks if c.rule == "accuracy.claim"] == claims


def test_generated_rows_without_boundaries_are_named(demo: Demo, rewritten: Rewrite) -> None:
    report = demo.verify(rewritten(without_boundaries))
    assert report.exit_code is ExitCode.KEPT, dump(report)
    used = only(report, "capture.rows-used")
    assert used.status is Status.UNKNOWN
    assert used.evidence["left_out"] == {"generated, without recorded boundaries": used.actual}
    assert used.actual == used.evidence["rows"] - only(report, "capture.rows-covered").actual


def test_fault_in_a_generated_row_is_found_by_the_sweep(demo: Demo, rewritten: Rewrite) -> None:
    def spoil(request: Request) -> Request:
        if request.id == "r2":
            request.tensors["slot.1"][60] *= -1
        return request

    report = demo.verify(rewritten(spoil))
    assert report.exit_code is ExitCode.VIOLATED
    (found,) = [c for c in report.checks if c.rule == "states.rows" and c.status is Status.FAILED]
    assert found.where is not None
    assert (found.where.sample, found.where.slot) == ("r2", 1)
    assert "row 60" in found.message


def test_wrong_recipe_in_generated_rows_only(demo: Demo, rewritten: Rewrite) -> None:
    """Prefill right, decode wrong: as an engine whose decode graph was captured with other layers."""

    def spoil(request: Request) -> Request:
        request.tensors["slot.0"][30:] = request.tensors["boundary.3"][30:]
        return request

    report = demo.verify(rewritten(spoil))
    assert report.exit_code is ExitCode.VIOLATED
    assert "states.unexplained" in failed(report) or "states.rows" in failed(report), dump(report)


@pytest.mark.parametrize("named", [True, False])
def test_prompt_that_is_not_the_samples_is_found(demo: Demo, rewritten: Rewrite, named: bool) -> None:
    def spoil(request: Request) -> Request:
        if request.id == "r3":
            request.tensors["input_ids"][10] += 1
            request = replace(request, sample=request.sample if named else None)
        return request

    report = demo.verify(rewritten(spoil))
    assert report.exit_code is ExitCode.VIOLATED
    if named:
        (found,) = [c for c in report.checks if c.rule == "capture.prompt" and c.status is Status.FAILED]
        assert found.where is not None
        assert found.where.row == 10
        assert "of requests that have a finding of their own" in only(report, "capture.rows-used").evidence["left_out"]
    else:
        assert "capture.samples" in failed(report)


def test_requests_without_names_are_found_by_their_prompt(demo: Demo, rewritten: Rewrite) -> None:
    report = demo.verify(rewritten(lambda r: replace(r, sample=None)))
    assert report.exit_code is ExitCode.KEPT, dump(report)
    assert only(report, "capture.rows-used").evidence["used"]["compared with training"] == only(report, "capture.rows-covered").actual


def test_a_request_of_a_part_of_the_prompt(demo: Demo, tmp_path: Path) -> None:
    """The sample's first tokens and nothing else: less is covered, and that is said."""
    whole = [demo.engine.generate(f"w{i}", s.input_ids_T.tolist(), 0, sample=s.name) for i, s in enumerate(demo.samples[1:], 1)]
    part = demo.engine.generate("part", demo.samples[0].input_ids_T[:9].tolist(), 0, sample=demo.samples[0].name)
    report = demo.verify(demo.write(tmp_path / "bundle", [part, *whole]))
    assert report.exit_code is ExitCode.KEPT, dump(report)
    covered = only(report, "capture.rows-covered")
    assert covered.evidence["per_sample"] == {demo.samples[0].name: {"request": "part", "rows": 176, "covered": 9}}


def test_further_runs_and_cached_prefixes_take_no_part(demo: Demo, tmp_path: Path) -> None:
    """Spoilt slots of other runs are no finding about the states of the plain one."""
    spoilt = demo.engine.generate("other", demo.prompt(0), 8, run="chunked", sample=demo.samples[0].name)
    cached = demo.engine.generate("cached", demo.prompt(1), 8, cached=16, sample=demo.samples[1].name)
    spoilt.tensors["slot.0"] = torch.zeros_like(spoilt.tensors["slot.0"])
    cached.tensors["slot.0"] = torch.zeros_like(cached.tensors["slot.0"])
    report = demo.verify(demo.write(tmp_path / "bundle", [spoilt, cached, *demo.plain]))
    assert not {r for r in failed(report) if r.startswith(("states.", "capture."))}, dump(report)
    left = only(report, "capture.rows-used").evidence["left_out"]
    assert left == {
        "of further runs, for the noise comparison only": len(spoilt.text) - 1,
        "behind a cached prefix, so that the drafter cannot be run from the first row": len(cached.text) - 1 - 16,
    }


def test_one_row_in_common(demo: Demo, tmp_path: Path) -> None:
    first = demo.engine.generate("one", demo.samples[0].input_ids_T[:1].tolist(), 4, sample=demo.samples[0].name)
    report = demo.verify(demo.write(tmp_path / "bundle", [first, *demo.plain[1:]]))
    assert report.exit_code is ExitCode.KEPT, dump(report)


def test_samples_of_further_runs_only(demo: Demo, tmp_path: Path) -> None:
    """Nothing is compared with training, which is no fault of the engine; a sample that nobody ran is one."""
    requests = [replace(r, run="batched", id=f"{r.id}@batched") for r in demo.plain]
    report = demo.verify(demo.write(tmp_path / "further", requests))
    said = [c for c in report.checks if c.rule == "capture.samples"]
    assert {c.status for c in said} == {Status.UNKNOWN}
    assert all("in run batched only" in c.message and c.required for c in said)
    assert report.exit_code is ExitCode.UNKNOWN, dump(report)
    report = demo.verify(demo.write(tmp_path / "fewer", requests[:-1]))
    assert [c.where.sample for c in report.checks if c.rule == "capture.samples" and c.status is Status.FAILED and c.where] == [
        demo.samples[-1].name
    ]
