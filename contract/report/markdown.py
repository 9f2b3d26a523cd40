"""Markdown for step summaries and comments: the verdict, a table of what is not passed, and the counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from contract.report.distances import Distances, drawing
from contract.report.escape import value_text, visible
from contract.report.groups import counts, grouped, headline, subject_text
from contract.report.steps import Steps, lines
from contract.report.style import Style
from contract.report.text import sections, shortened
from contract.reporting import Report

# Everything that could begin markup, a link, a mention, a table cell or HTML (GitHub Flavored Markdown 0.29 §6.1).
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+!|~$:@.=-])")
DRAWING_WIDTH: Final = 120


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    return "\n".join(_lines(report)) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    html = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Letters, digits and blanks around a mark are untouched, so that plain words stay readable in the source.
    return _MARKUP.sub(r"\\\1", html)


def _lines(report: Report) -> Iterator[str]:
    yield f"## contract {report.verdict.value} (exit {int(report.exit_code)})"
    yield ""
    yield f"{escape(headline(report))}"
    yield ""
    yield escape(subject_text(report))
    rows = [(label, check) for label, checks in sections(grouped(report)) for check in checks]
    if rows:
        yield ""
        yield "| | rule | where | what | expected | actual | fix |"
        yield "|---|---|---|---|---|---|---|"
    for label, check in rows:
        values = ["" if v is None else shortened(value_text(v)) for v in (check.expected, check.actual)]
        cells = [label.lower(), check.rule, str(check.where or ""), check.message, *values, check.fix or ""]
        yield "| " + " | ".join(escape(cell) for cell in cells) + " |"
    distances = Distances.of(report.measurements)
    if distances is not None:
        yield ""
        # An indented block takes everything as it is, and no fence can be closed from inside.
        yield from ("    " + visible(line) for line in drawing(distances, width=DRAWING_WIDTH))
    figures = Steps.all_of(report.measurements)
    if figures:
        yield ""
        yield from ("    " + visible(line) for line in lines(figures))
    yield ""
    yield escape(counts(report))
