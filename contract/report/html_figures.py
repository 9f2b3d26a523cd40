"""The figures of the HTML page, as inline SVG and tables: data flow, heat map, bars per step. Every figure has its values as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contract.report.distances import Distances, nearness, short
from contract.report.escape import xml_text
from contract.report.flow import Flow
from contract.report.steps import Steps, share_text
from contract.reporting import Report

BOX_WIDTH: Final = 150
BOX_HEIGHT: Final = 36
GAP_X: Final = 50
GAP_Y: Final = 18
LABEL_LENGTH: Final = 20
"""Characters of a label that fit into a box; the whole label is its tooltip."""


def flow_figure(flow: Flow, report: Report) -> Iterator[str]:
    """Boxes in columns, an arrow per edge, the broken ones red and named in the text below."""
    columns = flow.columns() or []
    rows = max(len(column) for column in columns)
    width = len(columns) * (BOX_WIDTH + GAP_X) - GAP_X
    height = rows * (BOX_HEIGHT + GAP_Y) - GAP_Y
    at = {
        id_: (x * (BOX_WIDTH + GAP_X), (y + (rows - len(column)) / 2) * (BOX_HEIGHT + GAP_Y))
        for x, column in enumerate(columns)
        for y, id_ in enumerate(column)
    }
    broken = flow.broken(report)
    yield '<section aria-labelledby="flow">'
    yield '<h2 id="flow">Data flow</h2>'
    yield '<div class="scroll" role="region" aria-labelledby="flow" tabindex="0">'
    yield f'<svg viewBox="-2 -2 {width + 4} {height + 4}" width="{width + 4}" height="{height + 4}" role="img" aria-labelledby="flow-said">'
    for edge in flow.edges:
        (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
        tone = "edge broken" if edge in broken else "edge"
        yield (
            f'<line class="{tone}" x1="{x1 + BOX_WIDTH:g}" y1="{y1 + BOX_HEIGHT / 2:g}" x2="{x2 - 6:g}" y2="{y2 + BOX_HEIGHT / 2:g}"/>'
            f'<circle class="{tone}" cx="{x2 - 3:g}" cy="{y2 + BOX_HEIGHT / 2:g}" r="3"/>'
        )
    for id_, (x, y) in at.items():
        label = flow.nodes[id_]
        shown = label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 3] + "..."
        yield (
            f'<g><title>{xml_text(label)}</title><rect class="box" x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
            f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + BOX_HEIGHT / 2 + 5:g}">{xml_text(shown)}</text></g>'
        )
    yield "</svg>"
    yield "</div>"
    said = "; ".join(f"{flow.nodes[e.source]} to {flow.nodes[e.target]}" for e in broken)
    yield f'<p id="flow-said">{f"Broken: {xml_text(said)}." if said else "No edge is broken."}</p>'
    yield "</section>"


def heat_map(distances: Distances) -> Iterator[str]:
    """Slots by states; the darker, the nearer."""
    yield '<section aria-labelledby="distances">'
    yield '<h2 id="distances">What each slot carries</h2>'
    yield '<div class="scroll" role="region" aria-labelledby="distances" tabindex="0">'
    yield "<table>"
    yield "<caption>Median relative error of each captured slot against each state; the darker, the nearer.</caption>"
    heads = "".join(f'<th scope="col">{xml_text(state)}</th>' for state in distances.states)
    yield f'<thead><tr><th scope="col" class="left">slot</th>{heads}</tr></thead>'
    yield "<tbody>"
    for index, slot in enumerate(distances.slots):
        cells = "".join(_cell(distances, index, column) for column in range(len(distances.states)))
        yield f'<tr><th scope="row">{xml_text(slot)}</th>{cells}</tr>'
    yield "</tbody>"
    yield "</table>"
    yield "</div>"
    yield "</section>"


def _cell(distances: Distances, index: int, column: int) -> str:
    state = distances.states[column]
    wanted, found = state == distances.expected[index], state == distances.nearest(index)
    classes = [name for name, holds in (("wanted", wanted), ("found", found), ("wrong", found and not wanted)) if holds]
    said = "".join(f'<span class="dim"> {word}</span>' for word, holds in (("expected", wanted), ("nearest", found)) if holds)
    value = distances.value(index, state)
    # The ink stays readable on every shade of the heat colour.
    shade = f"rgba(var(--heat), {0.55 * (nearness(value) or 0.0):.2f})"
    return f'<td class="{" ".join(classes)}" style="background: {shade}">{xml_text(short(value))}{said}</td>'


def bars(figures: Sequence[Steps]) -> Iterator[str]:
    """A table per figure: a row per path, a bar and the value per step."""
    for number, figure in enumerate(figures):
        yield f'<section aria-labelledby="steps-{number}">'
        yield f'<h2 id="steps-{number}">{xml_text(figure.name)}</h2>'
        yield f'<div class="scroll" role="region" aria-labelledby="steps-{number}" tabindex="0">'
        yield "<table>"
        heads = "".join(f'<th scope="col">step {step}</th>' for step in range(figure.length()))
        yield f'<thead><tr><th scope="col" class="left">path</th>{heads}</tr></thead>'
        yield "<tbody>"
        for path, values in figure.paths.items():
            cells = "".join(_bar(path, value, figure.greatest()) for value in values)
            yield f'<tr><th scope="row">{path}</th>{cells}</tr>'
        yield "</tbody>"
        yield "</table>"
        yield "</div>"
        yield "</section>"


def _bar(path: str, value: float | None, greatest: float) -> str:
    share = max(0.0, value or 0.0) / greatest
    return f'<td>{share_text(value)}<span class="bar {path}" style="width: {4 * share:.2f}rem"></span></td>'
