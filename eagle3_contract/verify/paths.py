"""One sample through the drafter, on the training path and on the inference path.

Legend: T tokens, G target hidden size, C = K*G.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contract.errors import UserError
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import draft_steps, teacher_forced
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.wiring import Reading
from eagle3_contract.verify.best import Best, spread_best


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """A drafter under one reading; ``training`` and ``inference`` paths differ in nothing else than the reading and the states."""

    reading: Reading
    drafter: Drafter

    @classmethod
    def build(cls, reading: Reading, source: WeightSource, target: WeightSource | None, device: torch.device) -> Path:
        """Load the drafter under a reading, its vocab map too. Raises like ``Drafter`` and ``Drafter.target_ids``."""
        path = cls(reading, Drafter(reading.wiring, source, target_source=target, device=device))
        _ = path.drafter.target_ids
        return path

    def run(
        self,
        input_ids_T: Tensor,
        states: Sequence[Tensor],
        steps: int,
        *,
        document_ids_T: Tensor | None = None,
        taps: Recorder | None = None,
    ) -> list[Tensor]:
        """Logits [T-1, DV] per step, on the CPU.

        Args:
            input_ids_T: the sample's tokens.
            states: K states [T, G] in concatenation order.
            steps: how many.
            document_ids_T: packed documents.
            taps: records the intermediate tensors.
        """
        output = teacher_forced(
            self.drafter,
            input_ids_T,
            _side_by_side(states),
            document_ids_T=document_ids_T,
            steps=steps,
            rollout=self.reading.rollout,
            taps=taps,
        )
        return [z.cpu() for z in output.logits_steps]

    def choose(self, input_ids_T: Tensor, states: Sequence[Tensor], steps: int, *, document_ids_T: Tensor | None = None) -> list[Best]:
        """What each row proposes, [T-1] per step: as ``run``, without holding more than one step's logits."""
        taken = draft_steps(
            self.drafter,
            input_ids_T,
            _side_by_side(states),
            document_ids_T=document_ids_T,
            steps=steps,
            rollout=self.reading.rollout,
        )
        return [spread_best(Best.of(step.logits), step.rows, max(0, len(input_ids_T) - 1)) for step in taken]


def _side_by_side(states: Sequence[Tensor]) -> Tensor:
    """[T, C] float32 of K states [T, G]."""
    return torch.cat([s.to(torch.float32) for s in states], dim=-1)


def try_build(
    reading: Reading, source: WeightSource, target: WeightSource | None, device: torch.device
) -> tuple[Path | None, UserError | None]:
    """A path, or the reason that this reading cannot be run on these files."""
    try:
        return Path.build(reading, source, target, device), None
    except UserError as error:
        return None, error
