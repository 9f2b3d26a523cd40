"""The figures of the HTML page, as inline SVG and tables: data flow, heat map, bars per step. Every figure has its values as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.report.distances import Distances, nearness, short
from contract.report.escape import xml_text
from contract.report.flow import Flow
from contract.report.steps import Steps, share_text
from contract.reporting import Report

BOX_WIDTH: Final = 144
BOX_HEIGHT: Final = 36
GAP_X: Final = 40
GAP_Y: Final = 18
TIP: Final = 9
LABEL_LENGTH: Final = 18
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
    yield '<div class="scroll" role="group" aria-labelledby="flow" tabindex="0">'
    yield (
        f'<svg viewBox="-2 -2 {width + 4} {height + 4}" width="{width + 4}" height="{height + 4}" role="img" '
        'aria-labelledby="flow" aria-describedby="flow-said">'
    )
    for edge in sorted(flow.edges, key=lambda e: e in broken):
        (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
        yield _arrow(x1 + BOX_WIDTH, y1 + BOX_HEIGHT / 2, x2, y2 + BOX_HEIGHT / 2, " broken" if edge in broken else "")
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
    text = f'<strong class="bad">Broken</strong>: {xml_text(said)}.' if said else "No edge is broken."
    yield f'<p id="flow-said">{text}</p>'
    yield "</section>"


def _arrow(x1: float, y1: float, x2: float, y2: float, tone: str) -> str:
    """A curve that leaves and arrives level, so that it runs through the gaps between boxes."""
    end, middle = x2 - TIP + 1, (x1 + x2) / 2
    return (
        f'<path class="edge{tone}" d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {end:g} {y2:g}"/>'
        f'<path class="tip{tone}" d="M{x2:g} {y2:g}l-{TIP} -5v10z"/>'
    )


def heat_map(distances: Distances) -> Iterator[str]:
    """Slots by states; the stronger the colour, the nearer."""
    yield '<section aria-labelledby="distances">'
    yield '<h2 id="distances">What each slot carries</h2>'
    yield (
        '<p class="dim" id="distances-said">Median relative error of each captured slot against each state; '
        "the stronger the colour, the nearer.</p>"
    )
    yield '<div class="scroll" role="group" aria-labelledby="distances" tabindex="0">'
    yield '<table aria-labelledby="distances" aria-describedby="distances-said">'
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
    said = "".join(f"<small>{word}</small>" for word, holds in (("expected", wanted), ("nearest", found)) if holds)
    value = distances.value(index, state)
    # The ink stays readable on every shade of the heat colour.
    shade = f"rgba(var(--heat), {0.55 * (nearness(value) or 0.0):.2f})"
    return f'<td class="{" ".join(classes)}" style="background: {shade}">{xml_text(short(value))}{said}</td>'


def bars(id_: str, figure: Steps) -> Iterator[str]:
    """A row per path, a bar and the value per step."""
    yield f'<section aria-labelledby="{id_}">'
    yield f'<h2 id="{id_}">{xml_text(figure.title)}</h2>'
    yield f'<div class="scroll" role="group" aria-labelledby="{id_}" tabindex="0">'
    yield f'<table aria-labelledby="{id_}">'
    heads = "".join(f'<th scope="col">{head}</th>' for head in figure.heads())
    yield f'<thead><tr><th scope="col" class="left">path</th>{heads}</tr></thead>'
    yield "<tbody>"
    for path, values in figure.paths.items():
        padded = [*values, *[None] * (figure.length() - len(values))]
        cells = "".join(_bar(path, value, figure.greatest()) for value in padded)
        yield f'<tr><th scope="row">{path}</th>{cells}</tr>'
    yield "</tbody>"
    yield "</table>"
    yield "</div>"
    yield "</section>"


def _bar(path: str, value: float | None, greatest: float) -> str:
    if value is None:
        return f"<td>{share_text(value)}</td>"
    share = max(0.0, value) / greatest
    return f'<td>{share_text(value)}<span class="bar {path}" style="width: {5 * share:.2f}rem"></span></td>'
