"""Speed item 4: three slots among 62 boundaries at hidden 7168 over 512 tokens, against the largest matrix product in the way.

The largest product that attribution can need is the one of all pairs of rows, which finds rows in another order:
[512, 7168] x [7168, 512], in float32, for one candidate. Tensors are bfloat16 as a capture holds them.
"""

from __future__ import annotations

import argparse

import torch
from measure import Outcome, interleaved, main, paired, record

from contract.numerics.matching import Candidate, attribute_all
from contract.numerics.tolerance import Tolerance


def run(outcome: Outcome, options: argparse.Namespace) -> None:
    """Slots that are boundaries but for rounding, and slots that need every round of the search (no boundary at all)."""
    torch.set_num_threads(1)
    tiny = outcome.scale == "tiny"
    layers, rows, width = (8, 32, 64) if tiny else (61, 512, 7168)
    torch.manual_seed(0)
    state = torch.randn(rows, width)
    boundaries = []
    for _ in range(layers + 1):
        state = state + 0.3 * torch.randn(rows, width)
        boundaries.append(state.bfloat16())
    candidates = [Candidate(f"boundary {n}", lambda s=s: s) for n, s in enumerate(boundaries)]
    wanted = (2, layers // 2, layers - 3)
    slots = {f"slot {i}": boundaries[n] + 1e-3 * torch.randn(rows, width).bfloat16() for i, n in enumerate(wanted)}
    tolerance = Tolerance(0.02, 0.05, "benchmark")
    found = attribute_all(slots, candidates, tolerance)
    best = [a.best.name for a in found.values() if a.best is not None]
    assert best == [f"boundary {n}" for n in wanted], best
    a_RH, b_HR = boundaries[0].float(), boundaries[1].float().T.contiguous()
    times = interleaved(
        {"attribution": lambda: attribute_all(slots, candidates, tolerance), "matrix product": lambda: a_RH @ b_HR},
        options.runs or (1 if tiny else 9),
    )
    record(outcome, times)
    outcome.bound("attribution / one matrix product", paired(times["attribution"], times["matrix product"]), 2.0)


TITLE = "attribution of three slots among 62 boundaries"

if __name__ == "__main__":
    raise SystemExit(main(TITLE, run))
