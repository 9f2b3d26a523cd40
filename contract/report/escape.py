"""Nothing that came from a file acts on a terminal, a log command or a page.

``visible`` is for text: control characters become ``\\x1b``, bidirectional and invisible ones ``\\u202e``, and the prefixes of log
commands (``::error`` of GitHub workflows; ``##[``, ``##vso[`` and ``##teamcity[`` of runners that read them anywhere in a line) are broken
up.
``json_text`` is for JSON: the same characters as escapes that every parser reads back.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final

from contract.findings import Json
from contract.reporting import plain

_COMMAND: Final = re.compile(r"::(?=[A-Za-z])|##(?=\[|vso\[|teamcity\[)", re.IGNORECASE)
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that have no ink (Default_Ignorable_Code_Point of Unicode outside the categories above, and the empty Braille cell)."""
_TYPOGRAPHY: Final = str.maketrans(
    {"…": "...", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "×": "x", "→": "->", "≤": "<=", "≥": ">="}
)
_LONGEST: Final = 4000


def visible(text: str) -> str:
    """One line in which every character is seen, and none acts. Line ends become ``\\n`` in two characters."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text)} characters)"
    seen = "".join(_character(c) if not c.isascii() or c < " " or c == "\x7f" else c for c in text)
    return _COMMAND.sub(lambda m: "\\x3a:" if m[0] == "::" else "\\x23#", seen)


def ascii_visible(text: str) -> str:
    """``visible``, in ASCII: typographic characters by their usual replacements, others as ``\\u4e2d``."""
    return visible(text.translate(_TYPOGRAPHY)).encode("ascii", "backslashreplace").decode("ascii")


def _character(c: str) -> str:
    if c == "\n":
        return "\\n"
    if unicodedata.category(c) not in _UNSAFE_CATEGORIES and _UNSEEN.match(c) is None:
        return c
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value_text(value: Json) -> str:
    """An expected or actual value on one line: strings as they are, everything else as JSON. To be made visible by the caller."""
    if isinstance(value, str):
        return value
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, default=str)


def json_text(value: Json, *, indent: int | None = None) -> str:
    """Strict JSON in ASCII, without any sequence that a terminal or a log reader acts on."""
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, indent=indent, default=str)
    # Outside of strings JSON has neither of these, so that the escapes always stand inside one.
    text = text.replace("\x7f", "\\u007f")
    return _COMMAND.sub(lambda m: "\\u003a:" if m[0] == "::" else "\\u0023#", text)


def xml_text(text: str) -> str:
    """Text for XML content or a double-quoted attribute: ``visible``, then the five entities."""
    entities = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
    return "".join(entities.get(c, c) for c in visible(text))
