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
from contract.report.steps import Steps
from contract.report.style import Style
from contract.report.text import facts, sections
from contract.reporting import Report

_TONE: Final = {ExitCode.KEPT: "good", ExitCode.VIOLATED: "bad", ExitCode.UNUSABLE: "bad", ExitCode.UNKNOWN: "open"}
_LABEL_TONE: Final = {"FAILED": "bad", "REJECTED": "bad", "UNKNOWN": "open", "WAIVED": "calm", "NOTICED": "calm"}

STYLESHEET: Final = """\
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --dim: #57606a; --heat: 9, 105, 218;
  --good: #1a7f37; --bad: #b3261e; --open: #7d4e00; --calm: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; --dim: #9198a1; --heat: 88, 166, 255;
    --good: #3fb950; --bad: #ff7b72; --open: #e3b341; --calm: #79c0ff; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; font: 1rem/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); } .calm { color: var(--calm); }
.dim { color: var(--dim); } code, dd { font-family: ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
article { border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; margin: .8rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0 0; }
dt { color: var(--dim); } dd { margin: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } caption { text-align: left; color: var(--dim); padding-bottom: .4rem; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; text-align: right; font-variant-numeric: tabular-nums; }
th[scope=row], .left { text-align: left; } td.wanted { outline: 2px solid var(--calm); outline-offset: -2px; }
td.found { font-weight: bold; } td.found.wrong { outline: 2px solid var(--bad); outline-offset: -2px; }
.box { fill: none; stroke: var(--dim); } .edge { stroke: var(--dim); stroke-width: 2; fill: var(--dim); }
.edge.broken { stroke: var(--bad); fill: var(--bad); stroke-width: 4; stroke-dasharray: 7 4; }
text { fill: var(--ink); text-anchor: middle; font: .8rem system-ui, sans-serif; }
.bar { display: block; height: .5rem; background: var(--calm); }
.bar.claimed { background: var(--dim); } .bar.inference { background: var(--open); }
summary { cursor: pointer; } :focus-visible { outline: 3px solid var(--calm); outline-offset: 2px; }
@media print { body { max-width: none; } }
"""


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"contract {report.verdict.value}"
    tone = _TONE[report.exit_code]
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
    yield "<header>"
    yield f'<h1 class="{tone}">{xml_text(report.verdict.value.upper())} <small>(exit {int(report.exit_code)})</small></h1>'
    yield f"<p>{xml_text(headline(report))}</p>"
    yield f'<p class="dim"><code>{xml_text(subject_text(report))}</code></p>'
    yield f"<p>{xml_text(counts(report))}</p>"
    yield "</header>"
    yield "<main>"
    for label, checks in sections(grouped(report)):
        if checks:
            yield f'<section aria-labelledby="{label.lower()}">'
            yield f'<h2 id="{label.lower()}" class="{_LABEL_TONE[label]}">{label.capitalize()}</h2>'
            for check in checks:
                yield from _finding(check)
            yield "</section>"
    flow, distances, steps = Flow.of(report.measurements), Distances.of(report.measurements), Steps.all_of(report.measurements)
    if flow is not None:
        yield from flow_figure(flow, report)
    if distances is not None:
        yield from heat_map(distances)
    yield from bars(steps)
    yield from _listed("Passed", grouped(report).passed)
    yield from _listed("Does not apply", grouped(report).skipped)
    drawn = {name for name, figure in (("flow", flow), ("distances", distances)) if figure is not None}
    yield from _facts("Measurements", {name: value for name, value in report.measurements.items() if name not in drawn})
    yield from _facts("Provenance", report.provenance)
    yield "</main>"
    yield f'<footer class="dim"><p>eagle3-contract {xml_text(__version__)}</p></footer>'
    yield "</body>"
    yield "</html>"


def _finding(check: Check) -> Iterator[str]:
    yield "<article>"
    yield f"<h3><code>{xml_text(check.rule)}</code></h3>"
    if check.where is not None:
        yield f'<p class="dim">{xml_text(str(check.where))}</p>'
    yield f"<p>{xml_text(check.message)}</p>"
    said = list(facts(check))
    if said:
        yield "<dl>"
        yield from (f"<dt>{name}</dt><dd>{xml_text(value)}</dd>" for name, value in said)
        yield "</dl>"
    yield "</article>"


def _listed(title: str, checks: Sequence[Check]) -> Iterator[str]:
    if checks:
        yield f"<details><summary>{title}: {len(checks)}</summary>"
        yield "<ul>"
        yield from (f"<li><code>{xml_text(check.rule)}</code> {xml_text(check.message)}</li>" for check in checks)
        yield "</ul>"
        yield "</details>"


def _facts(title: str, values: object) -> Iterator[str]:
    if isinstance(values, dict) and values:
        yield f"<details><summary>{title}</summary>"
        yield "<dl>"
        yield from (f"<dt>{xml_text(str(key))}</dt><dd>{xml_text(value_text(value))}</dd>" for key, value in values.items())
        yield "</dl>"
        yield "</details>"
