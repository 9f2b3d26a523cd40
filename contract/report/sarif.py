"""SARIF 2.1.0 (OASIS, sarif-v2.1.0-os).

§3.11.6: in a message ``[text](place)`` is a link, so that no text of a file may hold one.

§3.27.9: a result whose kind is not ``fail`` has the level ``none``. Failed checks and rejected inputs are ``fail``; an undecided required
check is ``open``; what a warning rule noticed is ``fail`` at level ``warning`` or ``note``; a waived failure is a suppressed ``fail``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from contract import __version__
from contract.findings import Check, Json, Severity, Status
from contract.report.escape import json_text, value_text, visible
from contract.report.groups import headline
from contract.report.style import Style
from contract.report.text import shortened
from contract.reporting import Report, plain

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOT_IN_URI: Final = re.compile(r"[^A-Za-z0-9/._~@+=,-]")


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    rules = sorted({check.rule for check in report.checks})
    run = {
        "tool": {"driver": {"name": "eagle3-contract", "version": __version__, "rules": [{"id": visible(rule)} for rule in rules]}},
        "invocations": [_invocation(report)],
        "results": [_result(check, rules) for check in report.checks],
        "columnKind": "unicodeCodePoints",
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _invocation(report: Report) -> Json:
    return {
        "executionSuccessful": report.complete and not any(check.rejected for check in report.checks),
        "exitCode": int(report.exit_code),
        "exitCodeDescription": headline(report),
        "toolExecutionNotifications": [
            {"level": "error" if check.rejected else "warning", "message": {"text": _text(check.message)}}
            for check in report.checks
            if check.status is Status.UNKNOWN and check.required
        ],
    }


def _result(check: Check, rules: Sequence[str]) -> Json:
    kind, level = _kind(check)
    result: dict[str, Json] = {
        "ruleId": visible(check.rule),
        "ruleIndex": rules.index(check.rule),
        "kind": kind,
        "level": level,
        "message": {"text": _text(_message(check))},
        "properties": {
            "status": check.status.value,
            "required": check.required,
            "dimension": check.dimension,
            "expected": plain(check.expected),
            "actual": plain(check.actual),
        },
    }
    if check.where is not None:
        result["locations"] = [_location(check)]
    if check.status is Status.WAIVED:
        result["suppressions"] = [{"kind": "external", "status": "accepted", **_justification(check)}]
    return result


def _justification(check: Check) -> dict[str, Json]:
    """The reason that the waiver gives (contract.waivers puts it into the evidence)."""
    waiver = check.evidence.get("waiver")
    reason = waiver.get("reason") if isinstance(waiver, Mapping) else None
    return {"justification": _text(reason)} if isinstance(reason, str) else {}


def _kind(check: Check) -> tuple[str, str]:
    if check.status in (Status.FAILED, Status.WAIVED) or check.rejected:
        return "fail", "error"
    if check.status is Status.UNKNOWN:
        return ("open", "none") if check.required else ("fail", "note" if check.severity is Severity.NOTE else "warning")
    return ("pass" if check.status is Status.PASSED else "notApplicable"), "none"


def _message(check: Check) -> str:
    parts = [check.message]
    parts += [f"expected {shortened(value_text(check.expected))}"] if check.expected is not None else []
    parts += [f"actual {shortened(value_text(check.actual))}"] if check.actual is not None else []
    return "; ".join([*parts, check.fix] if check.fix else parts)


def _location(check: Check) -> Json:
    where = check.where
    assert where is not None
    location: dict[str, Json] = {"logicalLocations": [{"fullyQualifiedName": visible(str(where)) or "contract"}]}
    if where.file:
        physical: dict[str, Json] = {"artifactLocation": {"uri": _uri(where.file)}}
        if where.line is not None:
            physical["region"] = {"startLine": where.line, **({"startColumn": where.column} if where.column is not None else {})}
        location["physicalLocation"] = physical
    return location


def _text(text: str) -> str:
    """A message without embedded links: a viewer would show the text of a link that a file wrote, and go elsewhere."""
    return visible(text).replace("](", "]\\x28")


def _uri(path: str) -> str:
    """A relative or absolute path as a URI reference: every other byte is percent-encoded."""
    data = path.encode("utf-8", "backslashreplace").decode("utf-8")
    return _NOT_IN_URI.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), data)
