"""States of the target, in the only numbering that exists inside this code.

boundary n is the residual stream after n decoder layers of the target, that is the input of layer n: boundary 0 is the input of the
first layer (the embedding, after any scale the model applies), boundary N (all layers) the last one *before* the final norm;
``final_norm`` is the state after it. Every id of every trainer and engine is translated into boundaries at the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

FINAL_NORM: Final = "final_norm"
State: TypeAlias = int | Literal["final_norm"]
"""A boundary number (0 ... N) or ``final_norm``."""
Recipe: TypeAlias = tuple[State, ...]
"""The ordered states that are concatenated into the fc input."""


def default_boundaries(layers: int) -> tuple[int, int, int]:
    """What almost everyone feeds where nothing else is said: boundaries (2, N//2, N-3).

    EAGLE cb7e084 eagle/traineagle3/modeling_llama_kv.py:1139; vLLM 0.32.0 model_executor/models/interfaces.py:1733; SGLang 0.5.23
    srt/models/llama.py:929-941.
    """
    return (2, layers // 2, layers - 3)


def state_name(state: State) -> str:
    """``boundary 3`` or ``final_norm``; how a state is called in every message."""
    return FINAL_NORM if state == FINAL_NORM else f"boundary {state}"


def recipe_text(recipe: Sequence[State]) -> str:
    """``[0, 3, 31]``; how a recipe is written in every message."""
    return "[" + ", ".join(str(s) for s in recipe) + "]"
