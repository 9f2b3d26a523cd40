"""The strips of the HTML page: a mark per token, and the same as a count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from contract.report.escape import xml_text
from contract.report.strips import HIT, MISS, NONE, Strip

TOKEN_WIDTH: Final = 3
HEIGHT: Final = 18
_MARKS: Final = {HIT: ("hit", 0, HEIGHT), MISS: ("miss", HEIGHT * 2 // 3, HEIGHT // 3), NONE: ("none", HEIGHT - 2, 2)}
"""Class, top and height: what was missed is told by its height as well."""


def token_strips(found: Sequence[Strip]) -> Iterator[str]:
    """A table with a row per sample and path."""
    yield '<section aria-labelledby="tokens">'
    yield '<h2 id="tokens">Token by token</h2>'
    yield '<p class="dim" id="tokens-said">The first draft at every token: high where right, low where wrong, a line where not counted.</p>'
    yield '<div class="scroll" role="group" aria-labelledby="tokens" tabindex="0">'
    yield '<table aria-labelledby="tokens" aria-describedby="tokens-said">'
    yield '<thead><tr><th scope="col" class="left">path</th><th scope="col">right</th><th scope="col">tokens</th></tr></thead>'
    for sample, strips in groupby(found, key=lambda s: s.sample):
        yield "<tbody>"
        yield f'<tr><th scope="rowgroup" colspan="3">{xml_text(sample)}</th></tr>'
        for strip in strips:
            yield f'<tr><th scope="row">{xml_text(strip.path)}</th><td>{strip.share}</td><td>{_drawn(strip)}</td></tr>'
        yield "</tbody>"
    yield "</table>"
    yield "</div>"
    yield "</section>"


def _drawn(strip: Strip) -> str:
    width = TOKEN_WIDTH * len(strip.marks)
    paths = dict.fromkeys(_MARKS, "")
    for mark, first, length in strip.runs():
        _, top, height = _MARKS[mark]
        paths[mark] += f"M{TOKEN_WIDTH * first} {top}h{TOKEN_WIDTH * length}v{height}h-{TOKEN_WIDTH * length}z"
    drawn = "".join(f'<path class="{_MARKS[mark][0]}" d="{d}"/>' for mark, d in paths.items() if d)
    return f'<svg class="strip" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" aria-hidden="true">{drawn}</svg>'
