"""How a report may look: decided once, from the stream and the environment, by whoever writes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

MIN_WIDTH: Final = 40
MAX_WIDTH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """``terminal``: tables and boxes instead of plain ASCII lines. ``color`` is looked at on a terminal only. ``width`` in columns."""

    terminal: bool = False
    color: bool = False
    width: int = 100


PLAIN: Final = Style()


def style_for(stream: TextIO, environ: Mapping[str, str]) -> Style:
    """The style for a stream. NO_COLOR (any value but the empty one, no-color.org) wins over everything; TERM=dumb has no colour.

    A terminal whose encoding cannot write box characters gets the plain style.
    """
    if not stream.isatty() or not _writes_boxes(stream.encoding):
        return PLAIN
    columns = shutil.get_terminal_size((PLAIN.width, 24)).columns if "COLUMNS" in environ else _columns(stream)
    color = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Style(terminal=True, color=color, width=max(MIN_WIDTH, min(columns, MAX_WIDTH)))


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or PLAIN.width
    except OSError:
        return PLAIN.width


def _writes_boxes(encoding: str | None) -> bool:
    try:
        "─│█…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
