"""What a verification says: rules, the checks made under them, and the verdict.

A ``Rule`` is the stable identity of one thing that can be wrong (id, severity, the page that ``contract explain`` prints). A
``Check`` is one application of a rule: it passed, failed, or could not be decided. The verdict is a pure function of the checks
(docs/adr/0003-verdicts-and-exit-codes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

from contract.errors import UserError

Json: TypeAlias = Any
"""A value that ``json.dumps`` takes: None, bool, int, float, str, list or dict of these. Non-finite floats become strings."""


class Status(StrEnum):
    """How one check came out. ``waived`` is a failure that an unexpired waiver covers; it counts as passed and is shown."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"
    WAIVED = "waived"


class Severity(StrEnum):
    """How bad a failure of the rule is. Only ``error`` can fail; a ``warning`` is an optional unknown with a reason to look."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Depth(IntEnum):
    """The depths of proof, cheapest first. A rule is required from its own depth on."""

    CHECK = 1
    VERIFY = 2
    LIVE = 3


class Verdict(StrEnum):
    KEPT = "kept"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class ExitCode(IntEnum):
    """Exit codes, in order of precedence: UNUSABLE, VIOLATED, UNKNOWN, KEPT."""

    KEPT = 0
    VIOLATED = 1
    UNUSABLE = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The place a check speaks of. Every part is optional; lines and columns count from 1."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None
    tensor: str | None = None
    slot: int | None = None
    sample: str | None = None
    row: int | None = None
    step: int | None = None

    def as_dict(self) -> dict[str, Json]:
        """The parts that are known, in a fixed order."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}

    def __str__(self) -> str:
        head = self.file or ""
        if self.line is not None:
            head += f":{self.line}" + (f":{self.column}" if self.column is not None else "")
        rest = [f"{k} {v}" for k, v in self.as_dict().items() if k not in ("file", "line", "column")]
        return " ".join(p for p in (head, " ".join(rest)) if p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One application of one rule. ``rejected`` marks an input that could not be used at all (exit 2)."""

    rule: str
    status: Status
    required: bool
    severity: Severity
    dimension: str
    message: str
    where: Where | None = None
    expected: Json = None
    actual: Json = None
    fix: str | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict)
    rejected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The stable identity of one thing that can be wrong.

    Attributes:
        id: ``area.kebab-name``; never reused for something else.
        title: one line, a statement that holds when the check passes.
        severity: ``error`` rules can fail; ``warning`` rules only ever warn.
        dimension: what kind of mismatch this is (recipe, keys, wiring, weights, vocab, shapes, rope, architecture, dtype,
            pairing, alignment, flags, metric, engine, files, contract).
        why: what it means when it fails and what acceptance does, with the source of the fact.
        remedy: the general fix; a check's own ``fix`` is more precise.
        depth: from which depth of proof on an undecided check of this rule is a required one; None = never required.
    """

    id: str
    title: str
    severity: Severity
    dimension: str
    why: str
    remedy: str
    depth: Depth | None = Depth.CHECK

    def passed(self, message: str, **more: Any) -> Check:
        return self._check(Status.PASSED, message, more)

    def failed(self, message: str, *, fix: str | None = None, **more: Any) -> Check:
        """A violation; on a warning rule an optional unknown (a reason to look, exit 0)."""
        if self.severity is not Severity.ERROR:
            return self.undecided(message, fix=fix or self.remedy, required=False, **more)
        return self._check(Status.FAILED, message, {"fix": fix or self.remedy, **more})

    def undecided(self, message: str, *, required: bool | None = None, at: Depth = Depth.CHECK, **more: Any) -> Check:
        """The check could not be decided. Required if the rule's depth has been reached, unless ``required`` says otherwise."""
        needed = (self.depth is not None and at >= self.depth) if required is None else required
        return replace(self._check(Status.UNKNOWN, message, more), required=needed)

    def skipped(self, message: str, **more: Any) -> Check:
        """The rule does not apply here, and that is certain."""
        return replace(self._check(Status.SKIPPED, message, more), required=False)

    def _check(self, status: Status, message: str, more: Mapping[str, Any]) -> Check:
        return Check(
            rule=self.id,
            status=status,
            required=self.depth is not None and self.severity is Severity.ERROR,
            severity=self.severity,
            dimension=self.dimension,
            message=message,
            **more,
        )


def check_from_error(error: UserError, *, dimension: str = "files") -> Check:
    """The check that an unusable input leaves in the report: undecided, required, and the reason for exit 2."""
    return Check(
        rule=error.rule,
        status=Status.UNKNOWN,
        required=True,
        severity=Severity.ERROR,
        dimension=dimension,
        message=error.message,
        where=error.where,
        fix=error.fix,
        evidence={"rejected": True},
        rejected=True,
    )


def decide(checks: Iterable[Check], *, complete: bool = True) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of a set of checks (design: unusable 2 > failed 1 > required unknown or nothing checked 3 > kept 0).

    ``complete`` is False when the run was interrupted: what was found so far stands, and the exit code is 2.
    """
    seen = list(checks)
    decided = any(c.status in (Status.PASSED, Status.FAILED, Status.WAIVED) for c in seen)
    failed = any(c.status is Status.FAILED for c in seen)
    unknown = not decided or any(c.status is Status.UNKNOWN and c.required for c in seen)
    verdict = Verdict.VIOLATED if failed else Verdict.UNKNOWN if unknown else Verdict.KEPT
    if not complete or any(c.rejected for c in seen):
        return (verdict if failed else Verdict.UNKNOWN), ExitCode.UNUSABLE
    return verdict, {
        Verdict.VIOLATED: ExitCode.VIOLATED,
        Verdict.UNKNOWN: ExitCode.UNKNOWN,
        Verdict.KEPT: ExitCode.KEPT,
    }[verdict]
