"""What the engine's flags say about lengths and drafting, in the words of either engine. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LENGTH: Final = ("max_model_len", "context_length")
"""How long a sequence may be: vLLM's and SGLang's."""


def whole(flags: Mapping[str, str], *names: str) -> int | None:
    """The first of some flags that is a whole number."""
    return next((int(v) for name in names if (v := flags.get(name, "")).isdecimal()), None)


def longest(flags: Mapping[str, str]) -> int | None:
    """Tokens that a sequence may have; None if the flags do not say."""
    return whole(flags, *LENGTH)
