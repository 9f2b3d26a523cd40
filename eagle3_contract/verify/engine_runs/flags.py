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


def tree(flags: Mapping[str, str]) -> tuple[int, int] | None:
    """Steps and branches of SGLang's tree drafting; None where the flags do not ask for a tree."""
    steps, branches = whole(flags, "speculative_num_steps"), whole(flags, "speculative_eagle_topk")
    return (steps, branches) if steps is not None and branches is not None and branches > 1 else None
