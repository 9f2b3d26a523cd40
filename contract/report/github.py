"""GitHub workflow annotations.

Limits (docs.github.com, workflow commands; actions/toolkit docs/problem-matchers): 10 annotations per level and step. At most nine of a
level are written, and a tenth that says how many more there are. In data ``%``, CR and LF are escaped, in properties ``:`` and ``,`` too
(actions/toolkit packages/core/src/command.ts). A column is only valid together with a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contract.findings import Check, Severity
from contract.report.escape import visible
from contract.report.groups import counts, grouped, headline
from contract.report.style import Style
from contract.report.text import facts
from contract.reporting import Report

PER_LEVEL: Final = 10


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    groups = grouped(report)
    summary = f"{headline(report)} ({counts(report)})"
    errors = [*groups.failed, *groups.rejected, *groups.undecided]
    lines = list(_level("error", errors, reserve=1)) if errors else []
    if int(report.exit_code) != 0:
        lines.append(_command("error", summary, title=f"contract {report.verdict.value}"))
    else:
        lines.append(_command("notice", summary, title=f"contract {report.verdict.value}"))
    lines += _level("warning", [c for c in groups.noticed if c.severity is not Severity.NOTE])
    lines += _level("notice", [*groups.waived, *(c for c in groups.noticed if c.severity is Severity.NOTE)], reserve=1)
    return "\n".join(lines) + "\n"


def _level(level: str, checks: Sequence[Check], *, reserve: int = 0) -> Iterator[str]:
    """The commands of one level, within the limit less ``reserve``."""
    room = PER_LEVEL - reserve
    shown = checks if len(checks) <= room else checks[: room - 1]
    for check in shown:
        message = "\n".join([visible(check.message), *(f"{name}: {visible(said)}" for name, said in facts(check))])
        where = check.where
        place = {} if where is None or where.file is None else {"file": where.file}
        if place and where is not None and where.line is not None:
            place["line"] = str(where.line)
            if where.column is not None:
                place["col"] = str(where.column)
        yield _command(level, message, **place, title=check.rule)
    if len(shown) < len(checks):
        yield _command(level, f"{len(checks) - len(shown)} more; see the full report", title="contract")


def _command(level: str, message: str, **properties: str) -> str:
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{level} {said}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
