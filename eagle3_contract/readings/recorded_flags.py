"""Flags as a capture records them, text to text, back to flags as a reading takes them.

The text is what an engine's own value looks like when it is written: JSON, or a word of Python (``True``, ``None``). A flag that is None
was not given. Where an engine was started several times, the flags of the first start count; ``RUN: NAME`` are those of another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from contract.errors import InputRejected
from contract.jsonio import load_json

BUILD: Final = "build"
"""Which build of the engine ran: no flag of it."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_WORDS: Final = {"True": True, "False": False}
_NOTHING: Final = ("None", "null", "")


def recorded_flags(flags: Mapping[str, str]) -> dict[str, Any]:
    """Flags by name, their values as Python's."""
    return {name: _value(text) for name, text in flags.items() if _NAME.fullmatch(name) and name != BUILD and text not in _NOTHING}


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return load_json(text.encode(), file="a recorded flag")
    except InputRejected:
        return text
