"""The index of architecture decisions, from their own titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "docs" / "adr"


def pages() -> Iterator[tuple[str, str]]:
    """Path and markdown of the index."""
    lines = ["# Decisions", "", "Each says what was decided, why, and what else was thought of.", ""]
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"* [{title}]({path.name})")
    yield "adr/index.md", "\n".join(lines) + "\n"
