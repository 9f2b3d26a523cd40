"""The pass over two tensors as compiled loops, where numba is installed (extra ``fast``) and the tensors are large.

numba compiles at the first use (some seconds, kept on disk for the next process), so that small comparisons never wait for it.

Legend: R rows, C columns of a chunk.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MIN_ELEMENTS: Final = 1 << 25
"""Tensors of fewer elements do not make numba be imported: that and loading the loops takes longer than it saves."""
MIN_ELEMENTS_LOADED: Final = 1 << 16
"""Once the loops are there, only tensors smaller than this are compared without."""
_LOOPS: Final = "contract.numerics.loops"
BLOCK: Final = 1024
"""Elements of a block: its three buffers of 4 bytes stay in the first-level cache."""
TINY: Final = 1e-24
"""A float32 sum of squares at or below this may have lost terms to underflow, unless every term is zero."""
SHIFTS: Final = {torch.bfloat16: 16, torch.float32: 0}
"""How far the stored bits of a dtype are from those of float32."""
_WORDS: Final = {2: torch.int16, 4: torch.int32}
_UNSIGNED: Final = {2: np.uint16, 4: np.uint32}

Bits = npt.NDArray[np.unsignedinteger]
Sums = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChunkFigures:
    """Of one chunk: sums [5, R] of a², b², ab, (a-b)², |a-b|; the largest |a-b| [R]; how many bits agree; counts [256] of exponents."""

    sums_5R: Sums
    largest_R: npt.NDArray[np.float32]
    same: int
    counts: npt.NDArray[np.int64]


class Kernel:
    """Figures of one chunk after the other; holds the blocks, so that each thread needs its own."""

    def __init__(self, shift: int, *, histogram: bool) -> None:
        self._shift, self._histogram = np.uint32(shift), histogram
        self._blocks = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)

    def chunk(self, a_RC: Tensor, b_RC: Tensor) -> ChunkFigures | None:
        """One chunk of one dtype of ``SHIFTS``; None where these figures cannot be believed: a value is not finite, a sum may have
        underflowed."""
        from contract.numerics import loops  # imports numba

        rows = a_RC.shape[0]
        sums_5R, largest_R, counts = np.zeros((5, rows)), np.zeros(rows, np.float32), np.zeros(256, np.int64)
        same = loops.chunk(_bits(a_RC), _bits(b_RC), self._shift, *self._blocks, sums_5R, largest_R, self._histogram, counts)
        if not np.isfinite(sums_5R).all() or (sums_5R[:2] <= TINY).any() or ((sums_5R[3] <= TINY) & (largest_R > 0.0)).any():
            return None
        return ChunkFigures(sums_5R, largest_R, int(same), counts)


def kernel_for(a_TH: Tensor, b_TH: Tensor, *, histogram: bool) -> Kernel | None:
    """The loops for two tensors, or None where they would not pay or cannot be had."""
    if a_TH.device.type != "cpu" or a_TH.dtype is not b_TH.dtype or a_TH.dtype not in SHIFTS:
        return None
    if a_TH.numel() < (MIN_ELEMENTS_LOADED if _LOOPS in sys.modules else MIN_ELEMENTS):
        return None
    return Kernel(SHIFTS[a_TH.dtype], histogram=histogram) if installed() else None


@cache
def installed() -> bool:
    """Whether numba is there. It is not imported by this."""
    return find_spec("numba") is not None


def _bits(x_RC: Tensor) -> Bits:
    size = x_RC.element_size()
    bits: Bits = x_RC.view(_WORDS[size]).numpy().view(_UNSIGNED[size])
    return bits
