"""Markdown from text that is not markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def text(value: object) -> str:
    """Plain text: nothing in it is markup, neither in a paragraph nor in a table."""
    escaped = re.sub(r"([\\`*_\[\]{}<>|#~])", r"\\\1", str(value))
    return " ".join(escaped.split())


def source(value: str) -> str:
    """The source of a fact. A path may break after its slashes."""
    return text(value).replace("/", "/<wbr>")


def prose(value: str) -> str:
    """A docstring's or a rule's text: backquoted parts stay code."""
    parts = re.split(r"`+([^`]+)`+", " ".join(value.split()))
    return "".join(code(part) if i % 2 else text(part) for i, part in enumerate(parts))


def code(value: object) -> str:
    """Code, also inside a table."""
    said = " ".join(str(value).split()).replace("`", "'").replace("|", "\\|")
    return f"`{said}`" if said else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; nothing without rows."""
    found = list(rows)
    if found:
        yield ""
        yield f"| {' | '.join(heads)} |"
        yield f"|{'---|' * len(heads)}"
        yield from (f"| {' | '.join(row)} |" for row in found)
        yield ""
