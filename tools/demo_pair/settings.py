"""Every number that decides the pair: shapes, recipes, seeds and step counts.

Nothing else in this package holds a constant of the training run, so that `training.json` can state them all from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VOCAB_SIZE: Final = 2048
DRAFT_VOCAB_SIZE: Final = 1024
BOS_ID: Final = 0
EOS_ID: Final = 1

LAYERS: Final = 12
HIDDEN: Final = 128
HEADS: Final = 2
KV_HEADS: Final = 1
HEAD_DIM: Final = 64
INTERMEDIATE: Final = 320
RMS_EPS: Final = 1e-5
INITIAL_SPREAD: Final = 0.05
ROPE_THETA: Final = 10000.0
MAX_POSITIONS: Final = 512

PROMPT_TOKENS: Final = 24
NEW_TOKENS: Final = 152
SEQUENCE: Final = PROMPT_TOKENS + NEW_TOKENS
TEMPERATURE: Final = 0.7
TTT_STEPS: Final = 3
STEP_DECAY: Final = 0.8
SHIPPED_SAMPLES: Final = 8

# Order is concatenation order.
RECIPES: Final[dict[str, tuple[int, ...]]] = {"a": (2, 6, 9), "b": (0, 2, 6)}
# Boundaries that the training set keeps besides the embedding, which is a lookup.
KEPT_BOUNDARIES: Final = (2, 6, 9, LAYERS)

SEEDS: Final = {"split": 0, "target": 1, "generate": 2, "heldout": 3, "a": 4, "b": 5}


@dataclass(frozen=True)
class Scale:
    """How much of everything: `full` makes the pair that ships, `tiny` exists to prove that a rerun gives the same bytes."""

    name: str
    documents: int | None
    target_steps: int
    target_batch: int
    target_length: int
    target_lr: float
    train_sequences: int
    generate_batch: int
    heldout_sequences: int
    drafter_steps: int
    drafter_batch: int
    drafter_lr: float


SCALES: Final[dict[str, Scale]] = {
    "full": Scale(
        name="full",
        documents=None,
        target_steps=3200,
        target_batch=8,
        target_length=192,
        target_lr=3e-3,
        train_sequences=3072,
        generate_batch=256,
        heldout_sequences=96,
        drafter_steps=2000,
        drafter_batch=8,
        drafter_lr=8e-3,
    ),
    "tiny": Scale(
        name="tiny",
        documents=400,
        target_steps=6,
        target_batch=4,
        target_length=64,
        target_lr=3e-3,
        train_sequences=16,
        generate_batch=8,
        heldout_sequences=8,
        drafter_steps=4,
        drafter_batch=4,
        drafter_lr=2e-3,
    ),
}
