"""The histogram of a comparison: how many elements have |a-b|/|b| within each power of two.

Legend: N elements of a chunk.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BUCKETS: Final = 256
_POOL: Final = 1 << 21
"""Exponents counted at once on a CPU: the counting makes, each time, a table of all pairs of exponents."""


class Exponents:
    """Counts of biased binary exponents of |a-b|/|b|: entry 0 is equality, entry 255 a difference from zero.

    A quotient underflows to nothing: unequal floats differ by 2**-25 of the larger one at least. 0/0, which is NaN, is an equality too.

    Attributes:
        counts: int64 [256]; complete after ``finish``.
        same: how many elements of the chunks of ``add`` have equal bits; complete after ``finish``.
    """

    def __init__(self, device: torch.device, size: int) -> None:
        """``size`` is the number of elements of the largest chunk."""
        self.counts: npt.NDArray[np.int64] = np.zeros(BUCKETS, np.int64)
        self.same = 0
        self._on_cpu = device.type == "cpu"
        self._wide = torch.empty(size, dtype=torch.int32, device=device)
        self._pool = np.zeros(max(size + size % 2, _POOL) if self._on_cpu else 0, np.uint8)
        self._filled = 0

    def add(self, x_RC: Tensor, y_RC: Tensor, d_RC: Tensor) -> None:
        """Count a chunk of finite values; d is their difference, and destroyed."""
        n = d_RC.numel()
        ratio_N = d_RC.div_(y_RC).to(torch.float32).view(-1)
        wide_N = self._wide[:n]
        torch.bitwise_right_shift(ratio_N.view(torch.int32), 23, out=wide_N)
        if self._on_cpu:
            if self._filled + n > len(self._pool):
                self._flush()
            narrow_N = self._pool[self._filled : self._filled + n]
            torch.from_numpy(narrow_N).copy_(wide_N)  # drops the sign that a negative reference gave the ratio
            self._filled += n
            zero = int(narrow_N.max()) == BUCKETS - 1
        else:
            counts = torch.bincount(wide_N.bitwise_and_(0xFF), minlength=BUCKETS).cpu().numpy()
            self.counts += counts
            self.same += int(counts[0])
            zero = bool(counts[BUCKETS - 1])
        if zero:
            zeros_N = torch.isnan(ratio_N)
            alike_N = (x_RC.view(-1).signbit() == y_RC.view(-1).signbit()) & zeros_N
            self.same += int(alike_N.sum())
            self._move(int(zeros_N.sum()))

    def add_some(self, ratio: Tensor) -> None:
        """Count ratios one by one; ``same`` is left as it is."""
        exponents = ((ratio.float().view(torch.int32) >> 23) & 0xFF).cpu().numpy()
        self.counts += np.bincount(exponents, minlength=BUCKETS)
        self._move(int(torch.isnan(ratio).sum()))

    def finish(self) -> None:
        """Count what is still waiting."""
        if self._filled:
            self._flush()

    def _move(self, equal: int) -> None:
        self.counts[BUCKETS - 1] -= equal
        self.counts[0] += equal

    def _flush(self) -> None:
        """Count two exponents at a time, which takes half the time."""
        odd = self._filled % 2
        if odd:
            self._pool[self._filled] = 0
        pairs = self._pool[: self._filled + odd].view(np.uint16)
        square = torch.bincount(torch.from_numpy(pairs.astype(np.int32)), minlength=BUCKETS * BUCKETS).numpy().reshape(BUCKETS, BUCKETS)
        found = square.sum(axis=0) + square.sum(axis=1)
        found[0] -= odd
        self.counts += found
        self.same += int(found[0])
        self._filled = 0
