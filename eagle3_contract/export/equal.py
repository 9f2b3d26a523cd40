"""The original and the exported drafter on the same states: are their logits equal?

Legend: T rows, K states, G target hidden size, H drafter hidden size, V rows of the embedding.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from contract.files.checkpoint import Checkpoint
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.names import TARGET_EMBEDDING_NAMES, TARGET_HEAD_NAMES
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.wiring import Owner, Wiring

ROWS: Final = 12
STEPS: Final = 3
SEED: Final = 7
TOLERANCE: Final = 2e-5
"""Of the largest logit, at least 1: a sum in another order differs by float32 rounding (observed: 1e-7 to 3e-6)."""


class MadeUpTarget:
    """Stands for a target that is not at hand: an embedding and a head of made-up rows, each computed from its number when it is asked for.

    The proof needs some embedding, the same for both drafters; which one does not matter.
    """

    label = "made-up target"

    def __init__(self, wiring: Wiring) -> None:
        self._shapes = {
            TARGET_EMBEDDING_NAMES[0]: (wiring.target_vocab_size, wiring.hidden_size),
            TARGET_HEAD_NAMES[0]: (wiring.target_vocab_size, wiring.hidden_size),
        }

    def names(self) -> Collection[str]:
        return self._shapes.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    def tensor(self, name: str) -> Tensor:
        return self.rows(name, torch.arange(self._shapes[name][0]))

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        phase_H = torch.arange(1, self._shapes[name][1] + 1, dtype=torch.float32)
        return torch.sin((ids_L.to(torch.float32)[:, None] + 1) * phase_H * 0.7)


def logits_apart(original: Path, exported: Path, wiring: Wiring, order: Sequence[int]) -> float:
    """The largest difference of logits over three steps, as a share of the largest logit (at least 1).

    Args:
        original: the drafter's folder; ``exported``: the other one.
        wiring: of the contract; of both, for only the order of the states differs.
        order: ``order[j]`` is the slot of the original that is slot j of the export.

    Raises:
        UserError: one of the two cannot be run.
    """
    generator = torch.Generator().manual_seed(SEED)
    states_TKG = torch.randn(ROWS, len(order), wiring.target_hidden_size, generator=generator)
    ids_T = torch.randint(0, min(wiring.target_vocab_size, 512), (ROWS,), generator=generator)
    needs = Owner.TARGET in (wiring.embedding, wiring.lm_head) or wiring.lm_head is Owner.TIED_TO_TARGET
    target: WeightSource | None = MadeUpTarget(wiring) if needs else None
    outputs = []
    for folder, fed_TKG in ((original, states_TKG), (exported, states_TKG[:, list(order)])):
        drafter = Drafter(replace(wiring), CheckpointSource(Checkpoint.open(folder, strict=False)), target_source=target)
        outputs.append(teacher_forced(drafter, ids_T, fed_TKG.flatten(1), steps=STEPS).logits_steps)
    worst = 0.0
    for ours, theirs in zip(*outputs, strict=True):
        real = ours.isfinite()
        if not bool(torch.equal(real, theirs.isfinite())):
            return float("inf")
        scale = max(1.0, float(ours[real].abs().max())) if bool(real.any()) else 1.0
        worst = max(worst, float((ours[real] - theirs[real]).abs().max()) / scale if bool(real.any()) else 0.0)
    return worst
