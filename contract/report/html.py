"""One self-contained page: no script, no network, light and dark by the reader's preference, every part reachable by keyboard.

The page carries a content security policy that forbids scripts and any request, so that even a mistake in the escaping could do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contract import __version__
from contract.findings import Check, ExitCode
from contract.report.distances import Distances
from contract.report.escape import value_text, xml_text
from contract.report.flow import Flow
from contract.report.groups import counts, grouped, headline, subject_text
from contract.report.html_figures import bars, flow_figure, heat_map
from contract.report.html_strips import token_strips
from contract.report.html_style import STYLESHEET
from contract.report.steps import Steps
from contract.report.strips import strips
from contract.report.style import Style
from contract.report.text import facts, sections
from contract.reporting import Report

_TONE: Final = {ExitCode.KEPT: "good", ExitCode.VIOLATED: "bad", ExitCode.UNUSABLE: "bad", ExitCode.UNKNOWN: "open"}
_LABEL_TONE: Final = {"FAILED": "bad", "REJECTED": "bad", "UNKNOWN": "open", "WAIVED": "calm", "NOTICED": "calm"}
_PROSE: Final = {"fix": ' class="prose"'}


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"contract {report.verdict.value}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{xml_text(title)}: {xml_text(subject_text(report))}</title>"
    yield f"<style>\n{STYLESHEET}</style>"
    yield "</head>"
    yield "<body>"
    yield from _header(report)
    parts = list(_parts(report))
    if len(parts) > 1:
        yield '<nav aria-label="On this page">'
        yield "<ul>"
        yield from (f'<li><a href="#{id_}">{xml_text(name)}</a></li>' for id_, name, _ in parts)
        yield "</ul>"
        yield "</nav>"
    yield "<main>"
    for _, _, lines in parts:
        yield from lines
    yield from _listed("Passed", grouped(report).passed)
    yield from _listed("Does not apply", grouped(report).skipped)
    drawn = [name for name, figure in (("flow", Flow), ("distances", Distances)) if figure.of(report.measurements) is not None]
    drawn += ["tokens"] if strips(report.measurements) else []
    yield from _facts("Measurements", {name: value for name, value in report.measurements.items() if name not in drawn})
    yield from _facts("Provenance", report.provenance)
    yield "</main>"
    yield '<footer class="dim">'
    yield f"<p>eagle3-contract {xml_text(__version__)}. <code>contract explain RULE</code> prints the page of a rule.</p>"
    yield "</footer>"
    yield "</body>"
    yield "</html>"


def _header(report: Report) -> Iterator[str]:
    yield f'<header class="verdict {_TONE[report.exit_code]}">'
    yield f"<h1>{xml_text(report.verdict.value.upper())} <small>(exit {int(report.exit_code)})</small></h1>"
    yield f"<p>{xml_text(headline(report))}</p>"
    yield f"<p>{xml_text(counts(report))}</p>"
    yield f'<p class="dim"><code>{xml_text(subject_text(report))}</code></p>'
    yield "</header>"


def _parts(report: Report) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Id, name in the navigation and lines of every part: where it is broken, what to do, then the figures behind it."""
    measured = report.measurements
    flow, distances = Flow.of(measured), Distances.of(measured)
    if flow is not None:
        yield "flow", "Data flow", list(flow_figure(flow, report))
    for label, checks in sections(grouped(report)):
        if checks:
            yield label.lower(), f"{label.capitalize()} ({len(checks)})", list(_findings(label, checks))
    if distances is not None:
        yield "distances", "What each slot carries", list(heat_map(distances))
    for number, figure in enumerate(Steps.all_of(measured)):
        yield f"steps-{number}", figure.title, list(bars(f"steps-{number}", figure))
    if found := strips(measured):
        yield "tokens", "Token by token", list(token_strips(found))


def _findings(label: str, checks: Sequence[Check]) -> Iterator[str]:
    yield f'<section aria-labelledby="{label.lower()}">'
    yield f'<h2 id="{label.lower()}" class="{_LABEL_TONE[label]}">{label.capitalize()}</h2>'
    for check in checks:
        yield f'<article class="{_LABEL_TONE[label]}">'
        yield f"<h3><code>{xml_text(check.rule)}</code></h3>"
        if check.where is not None:
            yield f'<p class="dim">{xml_text(str(check.where))}</p>'
        yield f"<p>{xml_text(check.message)}</p>"
        said = list(facts(check))
        if said:
            yield "<dl>"
            yield from (f"<dt>{name}</dt><dd{_PROSE.get(name, '')}>{xml_text(value)}</dd>" for name, value in said)
            yield "</dl>"
        yield "</article>"
    yield "</section>"


def _listed(title: str, checks: Sequence[Check]) -> Iterator[str]:
    if checks:
        yield f"<details><summary><h2>{title}: {len(checks)}</h2></summary>"
        yield "<ul>"
        yield from (f"<li><code>{xml_text(check.rule)}</code> {xml_text(check.message)}</li>" for check in checks)
        yield "</ul>"
        yield "</details>"


def _facts(title: str, values: object) -> Iterator[str]:
    if isinstance(values, dict) and values:
        yield f"<details><summary><h2>{title}</h2></summary>"
        yield "<dl>"
        yield from (f"<dt>{xml_text(str(key))}</dt><dd>{xml_text(value_text(value))}</dd>" for key, value in values.items())
        yield "</dl>"
        yield "</details>"
