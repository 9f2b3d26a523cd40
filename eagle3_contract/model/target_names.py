"""Where target families keep embedding, head and final norm. Names are exact: DeepSeek's MTP layers hold
``model.layers.61.embed_tokens.weight``."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

TARGET_EMBEDDING_NAMES: Final = (
    "model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "model.text_model.embed_tokens.weight",
    "thinker.model.embed_tokens.weight",
    "embed_tokens.weight",
    "transformer.wte.weight",
)
TARGET_HEAD_NAMES: Final = (
    "lm_head.weight",
    "language_model.lm_head.weight",
    "model.lm_head.weight",
    "thinker.lm_head.weight",
    "output.weight",
)
"""A target without one ties its head to the embedding."""
TARGET_FINAL_NORM_NAMES: Final = (
    "model.norm.weight",
    "language_model.model.norm.weight",
    "model.language_model.norm.weight",
    "model.text_model.norm.weight",
    "thinker.model.norm.weight",
    "norm.weight",
    "transformer.ln_f.weight",
)


def first_of(names: Iterable[str], stored: Container[str]) -> str | None:
    """The first of the names that is stored, or None."""
    return next((name for name in names if name in stored), None)
