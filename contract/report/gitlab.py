"""GitLab code quality: the JSON of docs.gitlab.com/ci/testing/code_quality (description, check_name, fingerprint, severity, location)."""

from __future__ import annotations

import hashlib
from collections import Counter

from contract.findings import Check, Json, Severity, Status
from contract.report.escape import json_text, visible
from contract.report.groups import grouped, headline
from contract.report.style import Style
from contract.reporting import Report


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    groups = grouped(report)
    fallback = str(report.subject.get("spec") or report.subject.get("drafter") or "contract.yaml")
    seen: Counter[str] = Counter()
    issues = []
    for check in [*groups.failed, *groups.rejected, *groups.undecided, *groups.noticed, *groups.waived]:
        identity = f"{check.rule}\0{check.where}"
        issues.append(_issue(check, fallback, _fingerprint(f"{identity}\0{seen[identity]}")))
        seen[identity] += 1
    if int(report.exit_code) != 0 and not (groups.failed or groups.rejected or groups.undecided):
        issues.append(_entry(headline(report), "contract.verdict", _fingerprint(f"verdict\0{fallback}"), "blocker", fallback, 1))
    return json_text(issues, indent=2) + "\n"


def _issue(check: Check, fallback: str, fingerprint: str) -> Json:
    place = check.where.file if check.where is not None and check.where.file else fallback
    line = check.where.line if check.where is not None and check.where.line else 1
    said = f"{check.message}. {check.fix}" if check.fix else check.message
    return _entry(said, check.rule, fingerprint, _severity(check), place, line)


def _entry(description: str, name: str, fingerprint: str, severity: str, path: str, line: int) -> Json:
    return {
        "description": visible(description),
        "check_name": visible(name),
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": visible(path), "lines": {"begin": line}},
    }


def _severity(check: Check) -> str:
    if check.status is Status.FAILED or check.rejected:
        return "critical"
    if check.status is Status.WAIVED:
        return "info"
    return "major" if check.required else "minor" if check.severity is not Severity.NOTE else "info"


def _fingerprint(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest()
