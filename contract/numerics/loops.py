"""The compiled loops of ``compiled.Kernel``. Importing this imports numba.

numpy and torch read a chunk once for each figure; these loops read each block of a row once, from the stored bits, and keep it in the
first-level cache. Loops are separate so that LLVM turns each into vector instructions: a table of counts in the loop of the sums, or a
maximum of floats, leaves all of it scalar (eight times slower where measured). Exponents are counted by comparing the block with each
exponent that occurs in it, a few in practice, which vectorises; a table of counts does not.

Parameters are arrays and scalars of numpy; numba finds their types.
Legend: R rows, C columns of a chunk, N elements of a block, B of a full one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numba import njit

_compiled: Final[Callable[[Any], Any]] = njit(
    fastmath={"reassoc", "contract", "nsz"}, boundscheck=False, nogil=True, error_model="numpy", cache=True
)
"""NaN and infinities keep their meaning: of the relaxed rules, only the order of sums is used."""


@_compiled
def sums_of(a_N: Any, b_N: Any, shift: Any, y_N: Any, d_N: Any) -> Any:
    a2 = b2 = ab = d2 = total = np.float32(0.0)
    for i in range(a_N.size):
        x = np.uint32(np.uint32(a_N[i]) << shift).view(np.float32)
        y = np.uint32(np.uint32(b_N[i]) << shift).view(np.float32)
        d = x - y
        y_N[i] = y
        d_N[i] = d
        a2 += x * x
        b2 += y * y
        ab += x * y
        d2 += d * d
        total += abs(d)
    return a2, b2, ab, d2, total


@_compiled
def largest_of(d_N: Any) -> Any:
    """The largest magnitude as bits: floats without their sign are ordered as integers are."""
    largest = np.int32(0)
    for i in range(d_N.size):
        largest = max(largest, np.int32(np.float32(d_N[i]).view(np.int32) & np.int32(0x7FFFFFFF)))
    return largest


@_compiled
def same_of(a_N: Any, b_N: Any) -> Any:
    same = np.int32(0)
    for i in range(a_N.size):
        same += np.int32(1) if a_N[i] == b_N[i] else np.int32(0)
    return same


@_compiled
def exponents_of(d_N: Any, y_N: Any, e_N: Any) -> Any:
    """The exponents of the quotients; the highest, and the lowest above 0 (less one)."""
    highest, lowest = np.int32(0), np.uint32(0xFFFFFFFF)
    for i in range(d_N.size):
        e = np.int32(np.int32(np.float32(d_N[i] / y_N[i]).view(np.int32) >> np.int32(23)) & np.int32(0xFF))
        e_N[i] = e
        highest = max(highest, e)
        lowest = min(lowest, np.uint32(np.uint32(e) - np.uint32(1)))  # 0 becomes the largest
    return highest, lowest


@_compiled
def count_of(e_N: Any, wanted: Any) -> Any:
    found = np.int32(0)
    for i in range(e_N.size):
        found += np.int32(1) if e_N[i] == wanted else np.int32(0)
    return found


@_compiled
def nan_of(d_N: Any, y_N: Any, a_N: Any, b_N: Any) -> Any:
    """Positions where 0 is compared with 0, whose quotient is NaN: they are equal. And those of them whose bits are."""
    found = alike = np.int32(0)
    for i in range(d_N.size):
        if d_N[i] == 0.0 and y_N[i] == 0.0:
            found += np.int32(1)
            alike += np.int32(1) if a_N[i] == b_N[i] else np.int32(0)
    return found, alike


@_compiled
def chunk(a_RC: Any, b_RC: Any, shift: Any, y_B: Any, d_B: Any, e_B: Any, sums_5R: Any, largest_R: Any, histogram: Any, counts: Any) -> Any:
    rows, columns = a_RC.shape
    same = 0
    for r in range(rows):
        largest = np.int32(0)
        for start in range(0, columns, d_B.size):
            n = min(d_B.size, columns - start)
            a_N, b_N, y_N, d_N, e_N = a_RC[r, start : start + n], b_RC[r, start : start + n], y_B[:n], d_B[:n], e_B[:n]
            a2, b2, ab, d2, total = sums_of(a_N, b_N, shift, y_N, d_N)
            sums_5R[0, r] += a2
            sums_5R[1, r] += b2
            sums_5R[2, r] += ab
            sums_5R[3, r] += d2
            sums_5R[4, r] += total
            largest = max(largest, largest_of(d_N))
            if not histogram:
                same += same_of(a_N, b_N)
                continue
            highest, lowest = exponents_of(d_N, y_N, e_N)
            left = n
            for e in range(np.int64(lowest) + 1, np.int64(highest)):
                found = count_of(e_N, np.int32(e))
                counts[e] += found
                left -= found
            if highest > 0:
                zeros = count_of(e_N, np.int32(0))
                counts[highest] += left - zeros
                left = zeros
            counts[0] += left  # unequal floats have a quotient of 2**-25 or more: 0 is equality
            same += left
            if highest == 255:
                nan, alike = nan_of(d_N, y_N, a_N, b_N)
                counts[255] -= nan
                counts[0] += nan
                same += alike
        largest_R[r : r + 1].view(np.int32)[0] = largest
    return same
