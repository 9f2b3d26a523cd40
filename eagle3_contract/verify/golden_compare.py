"""The drafter on its golden rows: run as the contract says, and held against what the file holds.

Legend: T tokens, R = T - 1 rows, H drafter hidden size, DV draft vocabulary, W width of one tensor, L live rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.findings import Check, Depth, Rule, Where
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import draft_steps
from eagle3_contract.drafter.taps import Recorder, spread
from eagle3_contract.model.wiring import Rollout
from eagle3_contract.verify import rules
from eagle3_contract.verify.golden import FC_OUT, STATE, GoldenRows, intermediate

TOLERANCE: Final = 1e-5
"""Bound on max|difference| relative to max(1, max|value|), in float32. The references that real trainers wrote are met within 4e-6;
any switch that acts misses by more than 100 times this bound (tests/peers)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRun:
    """What a forward gives on golden inputs: logits [R, DV] per step, intermediate states by their names in the file, and the tokens that
    were looked up in the embedding."""

    logits_steps: tuple[Tensor, ...]
    states: Mapping[str, Tensor]
    fed_ids: Tensor


def run_rows(
    drafter: Drafter,
    input_ids_T: Tensor,
    hidden_states_TC: Tensor,
    *,
    steps: int,
    rollout: Rollout,
    position_ids_T: Tensor | None = None,
    document_ids_T: Tensor | None = None,
) -> GoldenRun:
    """Run a forward and keep what a golden file can hold, on the CPU. Raises like ``draft_steps``."""
    taps, rows = Recorder(), input_ids_T.shape[0] - 1
    logits, states, fed = [], {}, []
    for out in draft_steps(
        drafter,
        input_ids_T,
        hidden_states_TC,
        position_ids_T=position_ids_T,
        document_ids_T=document_ids_T,
        steps=steps,
        rollout=rollout,
        taps=taps,
    ):
        if (0, "fc_out") in taps.values and out.step == 0:
            states[FC_OUT] = taps.spread(0, "fc_out", rows).cpu()
        states[f"{STATE}{out.step}"] = spread(out.state, out.rows, rows).cpu()
        logits.append(spread(out.logits, out.rows, rows).cpu())
        fed.append(out.fed_ids.cpu())
        taps.values.clear()
    return GoldenRun(logits_steps=tuple(logits), states=states, fed_ids=torch.unique(torch.cat(fed)))


def compare_golden(golden: GoldenRows, run: GoldenRun, *, tolerance: float | None = None) -> Iterator[Check]:
    """One check per step, and one per intermediate state that the file holds: the run against the golden rows.

    ``tolerance`` may only tighten the built-in bound. A row is live where the golden file has a finite row; a row that is live on one
    side only is a failure, NaN equals nothing.
    """
    bound = min(TOLERANCE, tolerance if tolerance is not None else TOLERANCE)
    for name, want_RH in intermediate(golden).items():
        step = int(name.removeprefix(STATE)) if name.startswith(STATE) else 0
        got_RH = run.states.get(name)
        if got_RH is None:
            where = Where(file=golden.path.name, step=step)
            yield rules.GOLDEN_STATES.failed(f"{name}: the file holds it, and the drafter has no such state", where=where)
            continue
        yield _compare(rules.GOLDEN_STATES, name, step, want_RH, got_RH, bound, golden.path.name)
    for step, (want_RD, got_RD) in enumerate(zip(golden.logits_steps, run.logits_steps, strict=True)):
        yield _compare(rules.GOLDEN_LOGITS, "logits", step, want_RD, got_RD, bound, golden.path.name)


def _compare(rule: Rule, what: str, step: int, want_RW: Tensor, got_RW: Tensor, relative: float, file: str) -> Check:
    where = Where(file=file, step=step)
    if want_RW.shape != got_RW.shape:
        return rule.failed(
            f"step {step}: the golden {what} have shape {list(want_RW.shape)}, the drafter gives {list(got_RW.shape)}",
            expected=list(want_RW.shape),
            actual=list(got_RW.shape),
            where=where,
        )
    live_R, got_live_R = want_RW.isfinite().all(1), got_RW.isfinite().all(1)
    if not live_R.any():
        return rule.undecided(f"step {step}: the golden file has no live row of {what}", where=where, at=Depth.VERIFY)
    if (live_R != got_live_R).any():
        row = int((live_R != got_live_R).nonzero()[0])
        return rule.failed(
            f"step {step}: row {row} has {what} on one side only",
            expected=bool(live_R[row]),
            actual=bool(got_live_R[row]),
            where=Where(file=file, step=step, row=row),
        )
    want_LW = want_RW[live_R].double()
    error_L = (want_LW - got_RW[live_R].double()).abs().amax(1)
    scale = max(1.0, float(want_LW.abs().max()))
    worst, bound = int(error_L.argmax()), relative * scale
    row = int(live_R.nonzero()[worst])
    figures = {
        "max_error": float(error_L[worst]),
        "median_row_error": float(error_L.median()),
        "max_value": scale,
        "rows": len(error_L),
    }
    if float(error_L[worst]) <= bound:
        return rule.passed(
            f"step {step}: {what} of {len(error_L)} rows within {bound:.1e} (worst {error_L[worst]:.1e})", where=where, evidence=figures
        )
    beyond = [int(r) for r in live_R.nonzero().flatten()[error_L > bound][:8]]
    return rule.failed(
        f"step {step}: {what} miss the golden rows by up to {error_L[worst]:.3g} (row {row}), "
        f"{error_L[worst] / bound:.0f} times the bound; {int((error_L > bound).sum())} of {len(error_L)} rows are off",
        expected=f"max difference <= {bound:.2e}",
        actual=float(error_L[worst]),
        where=Where(file=file, step=step, row=row),
        evidence={**figures, "rows_off": beyond},
    )
