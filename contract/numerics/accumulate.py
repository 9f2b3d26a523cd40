"""The single pass behind ``statistics.compare``: chunks, reused buffers, mergeable sums.

Legend: T rows (the first dimension), H elements of one row, R the rows of one chunk, C its columns.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contract.numerics.compiled import Kernel, kernel_for
from contract.numerics.exponents import Exponents

Floats = npt.NDArray[np.floating]

CHUNK_ELEMENTS: Final = 1 << 19
"""Elements per chunk on a CPU: below, calls cost more than arithmetic; above, the float32 buffers leave the cache."""
DEVICE_CHUNK_ELEMENTS: Final = 1 << 24
"""Elements per chunk on an accelerator, where each chunk costs launches and a synchronisation."""
_UNDERFLOW: Final = 1e-24
"""A float32 sum of squares at or below this may have lost terms to underflow (the smallest normal square is 1e-38)."""
_BITS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_NARROW: Final = (torch.bool, torch.int8, torch.uint8, torch.int16)


class Pass:
    """The accumulators of one pass over two [T, H] tensors of one device, and the buffers it reuses.

    Sums are over the positions that are finite on both sides. Partial sums are float32 per row and chunk, merged in float64;
    float64 and wide integer inputs are summed in float64 throughout.

    Attributes:
        sums: float64 [T] each of ``ab``, ``a2``, ``b2``, ``d2`` ((a-b)²) and ``abs`` (|a-b|).
        bad_a_T, bad_b_T: int64 [T], non-finite elements per row.
        bit_equal, mismatch: see ``statistics.Comparison``.
        max_abs, max_at: largest |a-b| (-1 while nothing was compared) and its row and column.
        exponents: the histogram, None unless asked for.
    """

    def __init__(self, a_TH: Tensor, b_TH: Tensor, *, chunk: int | None, histogram: bool) -> None:
        device = a_TH.device
        if chunk is None:
            chunk = CHUNK_ELEMENTS if device.type == "cpu" else DEVICE_CHUNK_ELEMENTS
        self.a_TH, self.b_TH = a_TH, b_TH
        self.T, self.H = a_TH.shape
        self.columns = max(1, min(self.H, chunk))
        self.rows = max(1, min(self.T, chunk // self.columns))
        narrow = all(x.dtype in _NARROW or (x.is_floating_point() and x.dtype is not torch.float64) for x in (a_TH, b_TH))
        work = torch.float32 if narrow else torch.float64
        size = self.rows * self.columns
        self.buffers = [torch.empty(size, dtype=work, device=device) for _ in range(3)]
        self.exponents = Exponents(device, size) if histogram else None
        self.kernel: Kernel | None = kernel_for(a_TH, b_TH, histogram=histogram)
        self.sums: dict[str, npt.NDArray[np.float64]] = {k: np.zeros(self.T) for k in ("ab", "a2", "b2", "d2", "abs")}
        self.bad_a_T = np.zeros(self.T, np.int64)
        self.bad_b_T = np.zeros(self.T, np.int64)
        self.bit_equal = self.mismatch = 0
        self.max_abs = -1.0
        self.max_at: tuple[int, int] | None = None

    def run(self) -> None:
        """Read both tensors once."""
        with np.errstate(over="ignore", invalid="ignore"):  # the sums are looked at
            for r in range(0, self.T, self.rows):
                for c in range(0, self.H, self.columns):
                    window = (slice(r, r + self.rows), slice(c, c + self.columns))
                    self._chunk(r, c, self.a_TH[window], self.b_TH[window])
        if self.exponents is not None:
            self.exponents.finish()
            self.bit_equal += self.exponents.same

    def _chunk(self, r: int, c: int, a_RC: Tensor, b_RC: Tensor) -> None:
        equal = _same_bits(a_RC, b_RC)
        if self.kernel is not None and not equal and self._compiled_chunk(self.kernel, r, c, a_RC, b_RC):
            return
        x_RC, y_RC, d_RC = (b[: a_RC.numel()].view(a_RC.shape) for b in self.buffers)
        x_RC.copy_(a_RC)
        if equal:
            y_RC = x_RC
        else:
            y_RC.copy_(b_RC)
        a2_R = _dots(x_RC, x_RC)
        b2_R = a2_R if equal else _dots(y_RC, y_RC)
        if not _held(a2_R, x_RC) or not (equal or _held(b2_R, y_RC)):
            self._careful_chunk(r, c, a_RC, b_RC)
        elif equal:
            self._equal_chunk(r, c, a2_R, x_RC.numel())
        else:
            torch.sub(x_RC, y_RC, out=d_RC)
            self._add(r, c, x_RC, y_RC, d_RC, a2_R, b2_R, None)
            if self.exponents is not None:
                self.exponents.add(x_RC, y_RC, d_RC)
            else:
                self.bit_equal += _count_same(x_RC, y_RC, d_RC)

    def _compiled_chunk(self, kernel: Kernel, r: int, c: int, a_RC: Tensor, b_RC: Tensor) -> bool:
        """Add a chunk by compiled loops; False, and nothing added, where it needs a closer look."""
        found = kernel.chunk(a_RC, b_RC)
        if found is None:
            return False
        for name, sum_R in zip(("a2", "b2", "ab", "d2", "abs"), found.sums_5R, strict=True):
            self.sums[name][r : r + len(sum_R)] += sum_R
        self.bit_equal += found.same
        if self.exponents is not None:
            self.exponents.counts += found.counts
        top = float(found.largest_R.max())
        if top > self.max_abs:
            row = int(found.largest_R.argmax())
            seen_C = (a_RC[row].float() - b_RC[row].float()).abs_()
            self.max_abs, self.max_at = top, (r + row, c + int(seen_C.argmax()))
        return True

    def _equal_chunk(self, r: int, c: int, a2_R: Floats, elements: int) -> None:
        for name in ("ab", "a2", "b2"):
            self.sums[name][r : r + len(a2_R)] += a2_R
        self.bit_equal += elements
        if self.exponents is not None:
            self.exponents.counts[0] += elements
        if self.max_abs < 0.0:
            self.max_abs, self.max_at = 0.0, (r, c)

    def _careful_chunk(self, r: int, c: int, a_RC: Tensor, b_RC: Tensor) -> None:
        """The chunk in float64, with non-finite values counted and left out of every sum."""
        x_RC, y_RC = a_RC.double(), b_RC.double()
        fine_a, fine_b = torch.isfinite(x_RC), torch.isfinite(y_RC)
        both = fine_a & fine_b
        self.bad_a_T[r : r + len(x_RC)] += (~fine_a).sum(dim=1).cpu().numpy()
        self.bad_b_T[r : r + len(x_RC)] += (~fine_b).sum(dim=1).cpu().numpy()
        alike = (torch.isnan(x_RC) & torch.isnan(y_RC)) | (x_RC == y_RC)
        self.mismatch += int((~both & ~alike).sum())
        self.bit_equal += int(torch.count_nonzero((_bits(x_RC) == _bits(y_RC)) & both))
        if bool(both.any()):
            x_RC = torch.where(both, x_RC, 0.0)
            y_RC = torch.where(both, y_RC, 0.0)
            d_RC = x_RC - y_RC
            self._add(r, c, x_RC, y_RC, d_RC, _dots(x_RC, x_RC), _dots(y_RC, y_RC), both)
            if self.exponents is not None:
                self.exponents.add_some((d_RC / y_RC)[both])

    def _add(self, r: int, c: int, x_RC: Tensor, y_RC: Tensor, d_RC: Tensor, a2_R: Floats, b2_R: Floats, both: Tensor | None) -> None:
        """Sums and maximum of a chunk; d becomes its absolute values."""
        span = slice(r, r + len(x_RC))
        self.sums["a2"][span] += a2_R
        self.sums["b2"][span] += b2_R
        self.sums["ab"][span] += _dots(x_RC, y_RC)
        d2_R = _dots(d_RC, d_RC)
        if not _held(d2_R, d_RC):
            d2_R = d_RC.double().square_().sum(dim=1).cpu().numpy()
        self.sums["d2"][span] += d2_R
        d_RC.abs_()
        self.sums["abs"][span] += d_RC.sum(dim=1).cpu().numpy()
        top_R = d_RC.amax(dim=1)
        top = float(top_R.max())
        if top > self.max_abs:
            row = int(top_R.argmax())
            seen_C = d_RC[row] if both is None else d_RC[row].masked_fill(~both[row], -1.0)
            self.max_abs, self.max_at = top, (r + row, c + int(seen_C.argmax()))


def _dots(x_RC: Tensor, y_RC: Tensor) -> Floats:
    """Dot product of each row of one with the same row of the other, in their dtype. BLAS, through numpy, is twice as fast as torch."""
    if x_RC.device.type != "cpu":
        far_R: Floats = torch.linalg.vecdot(x_RC, y_RC).cpu().numpy()
        return far_R
    near_R: Floats = np.matmul(x_RC.numpy()[:, None, :], y_RC.numpy()[:, :, None])[:, 0, 0]
    return near_R


def row_norms(x_RC: Tensor) -> Tensor:
    """L2 norm [R] of each row, float32 or float64 as x, on the CPU; inf or nan where a square overflows or a value is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return torch.from_numpy(np.sqrt(_dots(x_RC, x_RC)))


def _same_bits(a_RC: Tensor, b_RC: Tensor) -> bool:
    """Whether all bits are equal. numpy, on words of 8 bytes, is four times as fast as ``torch.equal`` on those of 2."""
    if a_RC.dtype != b_RC.dtype:
        return False
    a, b = _bits(a_RC), _bits(b_RC)
    if a.device.type != "cpu":
        return torch.equal(a, b)
    near, far = a.numpy(), b.numpy()
    if not np.array_equal(near[:1, :64], far[:1, :64]):
        return False
    if all(x.flags.c_contiguous and x.ctypes.data % 8 == 0 and x.nbytes % 8 == 0 for x in (near, far)):
        near, far = near.reshape(-1).view(np.uint64), far.reshape(-1).view(np.uint64)
    return np.array_equal(near, far)


def _count_same(x_RC: Tensor, y_RC: Tensor, spare_RC: Tensor) -> int:
    """Elements with equal bits. Destroys x and the spare buffer: comparing in place is ten times faster than into a mask."""
    bits_RC = _bits(x_RC)
    bits_RC.eq_(_bits(y_RC))
    spare_RC.copy_(bits_RC)
    return int(spare_RC.sum(dim=1).double().sum())


def _held(squares_R: Floats, x_RC: Tensor) -> bool:
    """Whether these sums can be believed: nothing overflowed or was not finite, and what is tiny is exactly zero."""
    if not np.isfinite(squares_R).all():
        return False
    if x_RC.dtype is torch.float64:
        return True
    tiny = squares_R <= _UNDERFLOW
    return not tiny.any() or not bool(x_RC[torch.from_numpy(tiny).to(x_RC.device)].any())


def _bits(x: Tensor) -> Tensor:
    return x.view(_BITS[x.element_size()])
