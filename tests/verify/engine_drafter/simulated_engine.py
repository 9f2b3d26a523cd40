"""How the simulated engine runs, and what may be wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

DATA = Path(__file__).parents[3] / "eagle3_contract" / "demo" / "data"
FOLDER = DATA / "drafter-a"
RECIPE = (2, 6, 9)
PROMPT = 24
HEADS, HEAD_DIM, EPS, THETA = 2, 64, 1e-5, 10000.0
VOCAB = 2048
WINDOW = 16
JUNK = 1.7
"""Scale of the states of rejected drafts, which nobody knows and nobody may need."""


@dataclass(frozen=True)
class Engine:
    """How it runs, and what is wrong with it.

    Attributes:
        style: ``vllm`` (rejected rows behind the accepted, logits of the target's vocabulary) or ``sglang`` (zeros behind them, logits of
            the draft vocabulary).
        drafts: tokens proposed in a round.
        topk: branches; above 1 a tree.
        steps: depth of a tree.
        chunk: rows of the prompt in one forward; 0 for all.
        dtype: what it computes in.
        fault: of ``FAULTS``, several joined by ``+``.
        tokens: how much of each text is run.
        states: how many of the recipe's states are fed; 1 is as wide as the drafter.
        flags: of the command line, as a bundle records them.
        preempted: rounds whose drafts are forgotten: the request makes room, and all of it is run again; twice named, twice.
        kept: slots that a prefix cache still holds when a request is run again.
    """

    style: str = "vllm"
    drafts: int = 3
    topk: int = 1
    steps: int = 3
    chunk: int = 0
    dtype: torch.dtype = torch.float32
    fault: str = ""
    tokens: int = 176
    states: int = 3
    flags: tuple[tuple[str, str], ...] = ()
    preempted: tuple[int, ...] = ()
    kept: int = 0

    def has(self, fault: str) -> bool:
        """Whether this is wrong with it."""
        return fault in self.fault.split("+")


FAULTS = (
    *("shifted-ids", "chunk-boundary", "chunk-end-of-prompt", "position-plus-one", "constant-positions", "draft-position-plus-one"),
    *(
        "no-rewrite",
        "rejected-kept",
        "rejected-in-sight",
        "slots-too-many",
        "blocks-reused",
        "window",
        "drafts-not-seen",
        "own-lane",
        "siblings",
        "lost-chunk",
        "missing-row",
        "skipped-round",
        "refill-wrong-id",
        "refill-not-seen",
    ),
    *("norm-before-residual", "hidden-first", "rope-theta", "no-final-norm", "other-embedding", "zero-embedding", "hidden-norm-of-ones"),
    *("normed-feedback", "stale-state", "neighbour-row", "neighbour-states", "permuted-slots", "fc-skipped"),
    *("absolute-map", "permuted-map", "permuted-head", "other-head", "scaled-head", "wrong-argmax", "worst-branch", "refused-draft"),
)
