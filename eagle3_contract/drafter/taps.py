"""Named intermediate tensors of a forward, so that the place where two forwards part can be found.

Names, in the order of computation: ``fc_in``, ``fc_normed``, ``fc_out`` (step 0 only); per layer i ``layers.i.embedding_normed`` and
``layers.i.hidden_normed`` (first layer only), ``layers.i.attn_in``, ``layers.i.attn_out``, ``layers.i.mlp_out``, ``layers.i.out``;
``final_normed``, ``logits``. attn_out and mlp_out are the branches, without the residual.
Legend: L rows of one step, R = T - 1 rows of the sequence, W width of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

Note: TypeAlias = Callable[[str, Tensor], None]
"""Takes the name and the value [L, W] of an intermediate tensor."""


def ignore(name: str, value_LW: Tensor) -> None:
    """The note that keeps nothing."""


class Taps(Protocol):
    def record(self, step: int, name: str, rows_L: Tensor, value_LW: Tensor) -> None:
        """Take the value [L, W] of one intermediate tensor at rows ``rows_L`` (int64, row t of the sequence)."""


class Recorder:
    """Taps that keep everything, in order: ``values[step, name]`` is [L, W], ``rows[step]`` the L rows it stands for."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, str], Tensor] = {}
        self.rows: dict[int, Tensor] = {}

    def record(self, step: int, name: str, rows_L: Tensor, value_LW: Tensor) -> None:
        self.rows[step] = rows_L
        self.values[step, name] = value_LW

    def spread(self, step: int, name: str, rows: int) -> Tensor:
        """One tensor over all R rows of the sequence, float32; NaN where the step did not compute a row."""
        return spread(self.values[step, name], self.rows[step], rows)


def spread(value_LW: Tensor, rows_L: Tensor, rows: int) -> Tensor:
    """[R, W] float32 with ``value`` at ``rows_L`` and NaN elsewhere."""
    out_RW = torch.full((rows, value_LW.shape[1]), float("nan"), dtype=torch.float32, device=value_LW.device)
    out_RW[rows_L] = value_LW.to(torch.float32)
    return out_RW
