"""Text for people: verdict, failures with expected, actual and fix, what is undecided, then one line of counts.

Without a terminal it is plain ASCII in lines (this module); on one it is drawn by ``contract.report.terminal``. The wording is no
stable interface: scripts read json.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from contract.findings import Check
from contract.report.distances import Distances, drawing
from contract.report.escape import ascii_visible, value_text
from contract.report.groups import Groups, counts, grouped, headline, subject_text
from contract.report.steps import Steps, lines
from contract.report.style import Style
from contract.reporting import Report

SHOWN_VALUE: Final = 600
"""Characters of an expected or actual value that text shows; json has all of it."""


def render(report: Report, style: Style) -> str:
    if style.terminal:
        from contract.report import terminal

        return terminal.render(report, style)
    return "\n".join(_lines(report, style.width)) + "\n"


def sections(groups: Groups) -> Iterator[tuple[str, Sequence[Check]]]:
    """The groups that are shown one by one, worst first, each with its label."""
    yield "FAILED", groups.failed
    yield "REJECTED", groups.rejected
    yield "UNKNOWN", groups.undecided
    yield "WAIVED", groups.waived
    yield "NOTICED", groups.noticed


def facts(check: Check) -> Iterator[tuple[str, str]]:
    """What is said below a check's message: expected, actual, fix. Not yet made visible."""
    if check.expected is not None:
        yield "expected", shortened(value_text(check.expected))
    if check.actual is not None:
        yield "actual", shortened(value_text(check.actual))
    if check.fix:
        yield "fix", check.fix


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}... ({len(text)} characters)"


def _lines(report: Report, width: int) -> Iterator[str]:
    yield from _wrapped(f"{report.verdict.value.upper()} (exit {int(report.exit_code)}): {headline(report)}", "", width)
    yield from _wrapped(ascii_visible(subject_text(report)), "  ", width)
    for label, checks in sections(grouped(report)):
        for check in checks:
            yield ""
            where = f"  {ascii_visible(str(check.where))}" if check.where is not None else ""
            yield from _wrapped(f"{label} {ascii_visible(check.rule)}{where}", "", width, "    ")
            yield from _wrapped(ascii_visible(check.message), "  ", width)
            for name, said in facts(check):
                yield from _wrapped(f"{name:9}{ascii_visible(said)}", "  ", width, " " * 11)
    distances = Distances.of(report.measurements)
    if distances is not None:
        yield ""
        yield from (ascii_visible(line) for line in drawing(distances, width=width))
    figures = Steps.all_of(report.measurements)
    if figures:
        yield ""
        yield from (ascii_visible(line) for line in lines(figures))
    yield ""
    yield counts(report)


def _wrapped(text: str, indent: str, width: int, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
