"""The text report on a terminal, drawn by rich. Strings from files become ``Text``, never markup."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from contract.findings import ExitCode
from contract.report.distances import Distances, nearness, short
from contract.report.escape import visible
from contract.report.groups import counts, grouped, headline, subject_text
from contract.report.steps import Steps, lines
from contract.report.style import Style
from contract.report.text import facts, sections
from contract.reporting import Report

_VERDICT_STYLE: Final = {
    ExitCode.KEPT: "bold green",
    ExitCode.VIOLATED: "bold red",
    ExitCode.UNUSABLE: "bold red",
    ExitCode.UNKNOWN: "bold yellow",
}
_LABEL_STYLE: Final = {"FAILED": "bold red", "REJECTED": "bold red", "UNKNOWN": "bold yellow", "WAIVED": "cyan", "NOTICED": "yellow"}
_FACT_STYLE: Final = {"expected": "green", "actual": "red", "fix": "bold"}


def render(report: Report, style: Style) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for block in _blocks(report, style.width):
        console.print(block)
    # Tables are filled with blanks to their full width, which wraps on a terminal that is made narrower.
    return "".join(line.rstrip(" ") + "\n" for line in out.getvalue().split("\n")[:-1])


def _blocks(report: Report, width: int) -> Iterator[RenderableType]:
    color = _VERDICT_STYLE[report.exit_code]
    title = Text(f"{report.verdict.value.upper()} (exit {int(report.exit_code)})", style=color)
    yield Panel(Text(f"{headline(report)}\n").append(visible(subject_text(report)), style="dim"), title=title, title_align="left")
    for label, checks in sections(grouped(report)):
        for check in checks:
            head = Text().append(label, style=_LABEL_STYLE[label]).append(f" {visible(check.rule)}", style="bold")
            if check.where is not None:
                head.append(f"  {visible(str(check.where))}", style="dim")
            yield head
            yield Padding(Text(visible(check.message)), (0, 0, 0, 2))
            table = Table.grid(padding=(0, 1, 0, 0))
            table.add_column(no_wrap=True, min_width=8)
            table.add_column(overflow="fold")
            for name, said in facts(check):
                table.add_row(Text(name, style="dim"), Text(visible(said), style=_FACT_STYLE[name]))
            if table.row_count:
                yield Padding(table, (0, 0, 0, 2))
            yield Text()
    distances = Distances.of(report.measurements)
    if distances is not None:
        yield _matrix(distances, width)
    for line in lines(Steps.all_of(report.measurements)):
        yield Text(visible(line))
    yield Text(counts(report), style="dim")


def _matrix(distances: Distances, width: int) -> Table:
    """The distances as a table if it fits; the expected state in brackets, the nearest one coloured, else only these two."""
    table = Table(title="distance of each slot to each state (median relative error)", title_justify="left")
    table.add_column("slot", no_wrap=True)
    fits = 12 + sum(max(len(s), 9) + 3 for s in distances.states) <= width
    for state in distances.states if fits else ("expected", "nearest"):
        table.add_column(Text(visible(state)), justify="right")
    for index, slot in enumerate(distances.slots):
        wanted, found = distances.expected[index], distances.nearest(index)
        if fits:
            cells = [_cell(distances.value(index, s), wanted=s == wanted, found=s == found) for s in distances.states]
        else:
            pairs = ((wanted, True, wanted == found), (found, found == wanted, True))
            cells = [Text(f"{visible(s or '-')} ").append_text(_cell(distances.value(index, s), wanted=w, found=f)) for s, w, f in pairs]
        table.add_row(Text(visible(slot)), *cells)
    return table


def _cell(value: float | None, *, wanted: bool, found: bool) -> Text:
    shown = short(value)
    if wanted or found:
        style = "bold green" if wanted and found else "bold red" if found else "red"
    else:
        style = "" if (nearness(value) or 0) > 0.5 else "dim"
    return Text(f"[{shown}]" if wanted else shown, style=style)
