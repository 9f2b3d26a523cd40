"""Speed item 2: one pass over two tensors, against torch's own ways to compare them and against copying their bytes.

Ours gives cosine, relative L2, scale-aware distance, maximum with index, non-finite counts, histogram, and all of it per row. The second
peer is what a script would write: ``torch.allclose`` and the same pooled statistics, each an expression of its own. Copying means reading
both tensors once into memory that is already there. With the extra ``fast`` (numba) the compiled loops are measured, without it numpy and
torch: the first line says which.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from measure import Outcome, interleaved, main, paired, record
from torch import Tensor

from contract.numerics.compiled import installed
from contract.numerics.statistics import compare

WIDTH = 7168


def make(bytes_each: int, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """Two bfloat16 tensors [rows, 7168]; ``noise`` is relative, 0 makes them equal."""
    torch.manual_seed(seed)
    b = torch.randn(max(2, bytes_each // (2 * WIDTH)), WIDTH).bfloat16()
    a = b.clone() if noise == 0.0 else (b.float() * (1.0 + noise * torch.randn(b.shape))).bfloat16()
    return a, b


def torch_testing(a: Tensor, b: Tensor) -> bool:
    """``torch.testing.assert_close`` with its default tolerances."""
    try:
        torch.testing.assert_close(a, b)
    except AssertionError:
        return False
    return True


def script_statistics(a: Tensor, b: Tensor) -> list[Any]:
    """``torch.allclose`` and pooled statistics as a script would write them."""
    x, y = a.float(), b.float()
    d = (x - y).abs()
    at = int(d.argmax())
    return [
        torch.allclose(a, b, rtol=1.6e-2, atol=1e-5),
        float(torch.nn.functional.cosine_similarity(x.flatten(), y.flatten(), dim=0)),
        float(d.square().sum().sqrt() / y.square().sum().sqrt()),
        float(1 - 2 * (x * y).sum() / (x.square().sum() + y.square().sum())),
        (float(d.max()), at),
        int((~torch.isfinite(x)).sum()),
        int((~torch.isfinite(y)).sum()),
        torch.histc(torch.log2(d / y.abs()).nan_to_num(-126, 127, -126), bins=256, min=-127, max=128),
    ]


def run(outcome: Outcome, options: argparse.Namespace) -> None:
    """Equal pairs (weights that must be the same) and noisy ones (states of two runs), one thread; then two threads over two pairs."""
    torch.set_num_threads(1)
    outcome.figure("compiled loops (numba)", float(installed()), "")
    tiny = outcome.scale == "tiny"
    runs = options.runs or (1 if tiny else 5)
    for label, noise in (("equal", 0.0), ("noisy", 0.01)):
        a, b = make(1 << 20 if tiny else 128 << 20, noise, seed=0)
        compare(a, b)  # compiles, the first time
        room_a, room_b = torch.empty_like(a), torch.empty_like(b)

        def copy_bytes(a: Tensor = a, b: Tensor = b, room_a: Tensor = room_a, room_b: Tensor = room_b) -> None:
            room_a.copy_(a)
            room_b.copy_(b)

        times = interleaved(
            {
                f"{label}: compare": lambda a=a, b=b: compare(a, b),
                f"{label}: copy the bytes": copy_bytes,
                f"{label}: assert_close": lambda a=a, b=b: torch_testing(a, b),
                f"{label}: allclose and statistics": lambda a=a, b=b: script_statistics(a, b),
            },
            runs,
        )
        record(outcome, times)
        ours = times[f"{label}: compare"]
        outcome.bound(f"{label}: assert_close / compare", paired(times[f"{label}: assert_close"], ours), 10.0, at_most=False)
        outcome.bound(
            f"{label}: allclose and statistics / compare", paired(times[f"{label}: allclose and statistics"], ours), 10.0, at_most=False
        )
        outcome.bound(f"{label}: compare / copying the bytes", paired(ours, times[f"{label}: copy the bytes"]), 3.0)
    halves = list(zip(a.chunk(2), b.chunk(2), strict=True))
    with ThreadPoolExecutor(2) as pool:
        times = interleaved(
            {
                "noisy: two halves, one after the other": lambda: [compare(x, y) for x, y in halves],
                "noisy: two halves in two threads": lambda: list(pool.map(lambda pair: compare(*pair), halves)),
            },
            runs,
        )
    record(outcome, times)
    one, two = times.values()
    outcome.figure("noisy: two threads are faster by", paired(one, two), "x")


TITLE = "one-pass comparison of two 128 MiB bfloat16 tensors"

if __name__ == "__main__":
    raise SystemExit(main(TITLE, run))
