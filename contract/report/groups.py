"""The checks of a report in the order in which a person needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.findings import Check, ExitCode, Severity, Status
from contract.reporting import Report

WRITES: Final = "init"
"""The command that writes a contract: its findings are about what is to be stated, not about a contract that exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Every check of a report, once. ``noticed`` are the optional unknowns: listed, exit 0."""

    failed: Sequence[Check]
    rejected: Sequence[Check]
    undecided: Sequence[Check]
    noticed: Sequence[Check]
    waived: Sequence[Check]
    passed: Sequence[Check]
    skipped: Sequence[Check]


def grouped(report: Report) -> Groups:
    checks = report.checks
    unknown = [c for c in checks if c.status is Status.UNKNOWN and not c.rejected]
    return Groups(
        failed=[c for c in checks if c.status is Status.FAILED],
        rejected=[c for c in checks if c.rejected],
        undecided=[c for c in unknown if c.required],
        noticed=sorted((c for c in unknown if not c.required), key=lambda c: c.severity is Severity.NOTE),
        waived=[c for c in checks if c.status is Status.WAIVED],
        passed=[c for c in checks if c.status is Status.PASSED],
        skipped=[c for c in checks if c.status is Status.SKIPPED],
    )


def headline(report: Report) -> str:
    """The verdict in one sentence."""
    if not report.complete:
        return "interrupted: this report is incomplete, and half a proof is no proof"
    groups = grouped(report)
    if report.exit_code is ExitCode.UNUSABLE:
        also = f"; {_count(len(groups.failed), 'check')} failed as well" if groups.failed else ""
        return f"an input could not be used, or a tool failed{also}"
    if report.command == WRITES:
        return _written(report, groups)
    if report.exit_code is ExitCode.VIOLATED:
        return f"{_count(len(groups.failed), 'check')} failed: the contract is violated"
    if report.exit_code is ExitCode.UNKNOWN:
        undecided = len(groups.undecided)
        return f"{_count(undecided, 'required check')} could not be decided" if undecided else "nothing was checked"
    return f"the contract is kept: {_count(len(groups.passed) + len(groups.waived), 'check')} passed"


def _written(report: Report, groups: Groups) -> str:
    if report.exit_code is ExitCode.KEPT:
        return "the contract was written, and no question that decides it is open"
    return f"the contract was written, with {_count(len(groups.failed), 'finding')} to settle: open questions, contradictions"


def counts(report: Report) -> str:
    """``41 passed, 1 failed, 2 unknown (1 of them required)``."""
    groups = grouped(report)
    unknown = len(groups.undecided) + len(groups.noticed)
    parts = [f"{len(groups.passed)} passed", f"{len(groups.failed)} failed"]
    parts += [f"{len(groups.rejected)} rejected"] if groups.rejected else []
    parts += [f"{unknown} unknown" + (f" ({len(groups.undecided)} of them required)" if groups.undecided else "")] if unknown else []
    parts += [f"{len(groups.waived)} waived"] if groups.waived else []
    parts += [f"{len(groups.skipped)} skipped"] if groups.skipped else []
    return ", ".join(parts)


def subject_text(report: Report) -> str:
    """``check spec=contract.yaml engines=vllm==0.32.0``. To be made visible by the caller."""
    parts = [f"{key}={_short(value)}" for key, value in report.subject.items() if value not in (None, "", [], {}, ())]
    return " ".join([report.command, *parts])


def _short(value: object) -> str:
    return ",".join(str(v) for v in value) if isinstance(value, list | tuple) else str(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
