"""What the draft vocabulary covers: the ceiling of any accuracy, since a token outside it can never be drafted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counted tokens, and how many of them the draft vocabulary contains. Adds up over samples."""

    covered: int = 0
    total: int = 0

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.covered + other.covered, self.total + other.total)

    @property
    def fraction(self) -> float | None:
        """covered / total; None when nothing was counted."""
        return self.covered / self.total if self.total else None


def coverage(token_ids: Any, targets: NDArray[np.int64], mask: Any = None) -> Coverage:
    """Count the tokens that can be drafted.

    Args:
        token_ids: [T] target ids; one outside the vocabulary is simply not covered.
        targets: [DV] target ids of the draft vocabulary (:attr:`MapVerdict.targets`).
        mask: [T] which tokens count (the trainers count those with loss mask 1); None counts all.

    Raises:
        ValueError: ``mask`` has another length than ``token_ids``.
    """
    ids = np.asarray(token_ids).reshape(-1)
    if mask is not None:
        keep = np.asarray(mask).reshape(-1).astype(bool)
        if len(keep) != len(ids):
            raise ValueError(f"mask has {len(keep)} entries for {len(ids)} tokens")
        ids = ids[keep]
    return Coverage(int(np.isin(ids, targets).sum()), len(ids))
