"""The best entry of each row of logits: all that counting needs of them.

Legend: R rows, D draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Per row the draft id of the largest logit ([R] int64), and whether that logit is a finite number ([R] bool).

    A row with a NaN or with +inf anywhere is not finite, nor is one that holds nothing but -inf.
    """

    ids: Tensor
    finite: Tensor

    @classmethod
    def of(cls, logits_RD: Tensor) -> Self:
        """Of logits [R, D], on the CPU or brought there as indices only."""
        if logits_RD.device.type != "cpu" or logits_RD.dtype is not torch.float32:
            values_R, ids_R = logits_RD.max(dim=-1)  # NaN wins over every number
            return cls(ids_R.cpu(), values_R.isfinite().cpu())
        # numpy's argmax runs in vector instructions, torch's on the CPU does not (eight times slower where measured); NaN wins here, too.
        values_RD = logits_RD.detach().numpy()
        ids_R = values_RD.argmax(axis=-1)
        return cls(torch.from_numpy(ids_R), torch.from_numpy(np.isfinite(values_RD[np.arange(len(ids_R)), ids_R])))

    def rows(self, at: slice) -> Self:
        """Those of some rows."""
        return type(self)(self.ids[at], self.finite[at])

    def __len__(self) -> int:
        return len(self.ids)


def spread_best(best: Best, rows_L: Tensor, rows: int) -> Best:
    """Over all R rows of a sequence, where ``best`` is of the rows ``rows_L``; a row without is not finite."""
    ids_R, finite_R = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    at_L = rows_L.cpu().numpy()
    ids_R[at_L], finite_R[at_L] = best.ids.numpy(), best.finite.numpy()
    return Best(torch.from_numpy(ids_R), torch.from_numpy(finite_R))
