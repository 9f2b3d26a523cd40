"""The report: checks, measurements and provenance of one run, and the one JSON shape that every script is written against."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from contract.errors import LimitExceeded
from contract.findings import Check, ExitCode, Json, Status, Verdict, check_from_error, decide
from contract.limits import Limits

REPORT_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one command found.

    Attributes:
        command: the command that made it (``check``, ``verify`` ...).
        subject: what was looked at (spec path, drafter, target, engines).
        checks: every check, passed ones too, in the order they were made.
        measurements: figures that are no check by themselves (distance matrix, accuracy and acceptance per step).
        provenance: versions, digests, device, dtype, command line.
        complete: False if the run was interrupted.
    """

    command: str
    subject: Mapping[str, Json]
    checks: Sequence[Check]
    measurements: Mapping[str, Json] = field(default_factory=dict)
    provenance: Mapping[str, Json] = field(default_factory=dict)
    complete: bool = True

    @property
    def verdict(self) -> Verdict:
        return decide(self.checks, complete=self.complete)[0]

    @property
    def exit_code(self) -> ExitCode:
        return decide(self.checks, complete=self.complete)[1]


class FindingsCounter:
    """Counts what a report will say beyond passed checks, against the limit ``findings``."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0

    def beyond(self, check: Check) -> Check | None:
        """None while there is room for the check; else the rejected check that ends the report in its place (exit 2)."""
        self.count += check.status is not Status.PASSED
        if self.count <= self.limits.findings:
            return None
        more = LimitExceeded("findings", allowed=self.limits.findings, actual=self.count, rule="files.limit-exceeded", what="the report")
        return check_from_error(more, dimension=check.dimension)


def within_findings(checks: Iterable[Check], limits: Limits) -> Iterator[Check]:
    """The checks up to the limit ``findings``, passed ones not counted, and one that says that there are more; the rest is not made."""
    counter = FindingsCounter(limits)
    for check in checks:
        last = counter.beyond(check)
        yield last or check
        if last is not None:
            return


def check_as_json(check: Check) -> dict[str, Json]:
    """One check in the stable JSON shape (all keys always present)."""
    return {
        "rule": check.rule,
        "status": check.status.value,
        "required": check.required,
        "severity": check.severity.value,
        "dimension": check.dimension,
        "where": check.where.as_dict() if check.where is not None else None,
        "expected": plain(check.expected),
        "actual": plain(check.actual),
        "message": check.message,
        "fix": check.fix,
        "evidence": plain(check.evidence),
    }


def report_as_json(report: Report, *, tool_version: str) -> dict[str, Json]:
    """The report in the stable JSON shape; ``incomplete: true`` is added to an interrupted one."""
    document: dict[str, Json] = {
        "schema_version": REPORT_SCHEMA_VERSION,
        "tool": {"name": "eagle3-contract", "version": tool_version},
        "command": report.command,
        "verdict": report.verdict.value,
        "exit_code": int(report.exit_code),
        "subject": plain(report.subject),
        "checks": [check_as_json(c) for c in report.checks],
        "measurements": plain(report.measurements),
        "provenance": plain(report.provenance),
    }
    if not report.complete:
        document["incomplete"] = True
    return document


def plain(value: Json) -> Json:
    """A value that strict JSON can carry: tuples become lists, non-finite floats the strings "nan", "inf", "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    return value
