"""JUnit XML: a test case per check, so that a pipeline that knows only tests shows what failed.

A failed check is a ``failure``; a rejected input or an undecided required check an ``error``; an optional unknown or a check that does
not apply is ``skipped``. A report that exits other than 0 always has a failure or an error, also where no check says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from contract.findings import Check, Status
from contract.report.escape import value_text, xml_text
from contract.report.groups import headline, subject_text
from contract.report.style import Style
from contract.report.text import facts
from contract.reporting import Report


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    cases = [(check.dimension, _name(check), _outcome(check)) for check in report.checks]
    if int(report.exit_code) != 0 and not any(tag in ("failure", "error") for _, _, (tag, _) in cases):
        verdict = f'<error type="verdict" message="{xml_text(headline(report))}"/>'
        cases.append(("contract", "verdict", ("error", verdict)))
    tags = [tag for _, _, (tag, _) in cases]
    totals = f'tests="{len(cases)}" failures="{tags.count("failure")}" errors="{tags.count("error")}" skipped="{tags.count("skipped")}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="eagle3-contract" {totals}>']
    lines.append(f'  <testsuite name="{xml_text(subject_text(report))}" {totals}>')
    lines += [*_properties(report)]
    for group, name, (_, body) in cases:
        head = f'    <testcase classname="{xml_text(group)}" name="{xml_text(name)}"'
        lines.append(f"{head}>{body}</testcase>" if body else f"{head}/>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


def _name(check: Check) -> str:
    return check.rule if check.where is None else f"{check.rule} [{check.where}]"


def _outcome(check: Check) -> tuple[str, str]:
    """The tag and the whole element below a test case; both empty for a pass."""
    message = xml_text(check.message)
    if check.status is Status.FAILED:
        return "failure", f'<failure type="{xml_text(check.rule)}" message="{message}">{_details(check)}</failure>'
    if check.status is Status.UNKNOWN and check.required:
        kind = "rejected" if check.rejected else "unknown"
        return "error", f'<error type="{kind}" message="{message}">{_details(check)}</error>'
    if check.status in (Status.UNKNOWN, Status.SKIPPED):
        return "skipped", f'<skipped message="{message}"/>'
    if check.status is Status.WAIVED:
        return "waived", f"<system-out>waived: {message}</system-out>"
    return "", ""


def _details(check: Check) -> str:
    return "&#10;".join(f"{name}: {xml_text(said)}" for name, said in facts(check))


def _properties(report: Report) -> Iterator[str]:
    yield "    <properties>"
    stated = {"verdict": report.verdict.value, "exit_code": int(report.exit_code), "complete": report.complete, **report.provenance}
    for key, value in stated.items():
        yield f'      <property name="{xml_text(str(key))}" value="{xml_text(value_text(value))}"/>'
    yield "    </properties>"
