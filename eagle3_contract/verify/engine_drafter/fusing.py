"""fc against ours, on the engine's own input, and the variants that it may be instead.

Legend: R rows, C width of what reaches fc, H hidden size, K states.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.findings import Json
from contract.numerics.statistics import row_errors
from contract.numerics.tolerance import NoTolerance, Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.model.wiring import NormBeforeFc, Wiring
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import Row
from eagle3_contract.verify.engine_drafter.bounds import Floor, bound
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.variants import Variant

ORDERS_UP_TO: Final = 4
"""States whose orders are all tried; of more only swaps of two."""
NORMS: Final[tuple[tuple[NormBeforeFc, ...], ...]] = ((), (NormBeforeFc.INPUT_NORM,), (NormBeforeFc.FC_NORM,))


@dataclass(frozen=True, slots=True, eq=False)
class _Fused:
    subject: Subject
    row: Row
    given_C: Tensor
    made_H: Tensor


def _rows(subjects: Sequence[Subject]) -> Iterator[_Fused]:
    for subject in subjects:
        for _, row in subject.used():
            given, made = subject.value(row, "fc_in"), subject.value(row, "fc_out")
            if not row.drafted and given is not None and made is not None:
                yield _Fused(subject, row, given, made)


@torch.no_grad()
def fusing(
    subjects: Sequence[Subject],
    base: Drafter,
    rounded: Drafter | None,
    *,
    dtype: str,
    limit: float | None,
    build: Callable[[Variant], Drafter],
    ledger: Ledger,
) -> dict[str, Json]:
    """Compare fc's output of every committed row; returns the measurement."""
    rows = list(_rows(subjects))
    if not rows:
        return {}
    widths = {(len(r.given_C), len(r.made_H)) for r in rows}
    if widths != {(base.states_width, base.wiring.hidden_size)}:
        for r in rows:
            place = r.subject.place(r.row)
            ledger.compared(rules.FC_OUTPUT, place)
            cause = (
                f"has not the contract's widths: {len(r.given_C)} to {len(r.made_H)}, not {base.states_width} to {base.wiring.hidden_size}"
            )
            ledger.differs(rules.FC_OUTPUT, Difference(place=place, tensor="fc_out", cause=cause))
        return {}
    given_RC = torch.stack([r.given_C for r in rows]).to(torch.float32)
    made_RH = torch.stack([r.made_H for r in rows]).to(torch.float32)
    ours_RH = base.fuse(given_RC).cpu()
    floor = None if rounded is None else Floor.of(row_errors(rounded.fuse(given_RC).to("cpu", torch.float32), ours_RH))
    tolerance = bound(dtype, 1, floor, limit)
    if isinstance(tolerance, NoTolerance):
        ledger.unknown(rules.FC_OUTPUT, tolerance.reason, len(rows))
        return {}
    errors = row_errors(made_RH, ours_RH)
    beyond = errors > (tolerance.worst if float(errors.median()) <= tolerance.median else tolerance.median)
    figures: dict[str, Json] = {"rows": len(rows), "median": float(errors.median()), "worst": float(errors.max())}
    figures["bound"] = {"median": tolerance.median, "worst": tolerance.worst, "source": tolerance.source}
    ledger.says(rules.FC_OUTPUT, f"median {figures['median']:.2g}, worst {figures['worst']:.2g}")
    cause = _cause(given_RC[beyond], made_RH[beyond], base, build, tolerance) if bool(beyond.any()) else ""
    for r, error, over in zip(rows, errors.tolist(), beyond.tolist(), strict=True):
        place = r.subject.place(r.row)
        ledger.compared(rules.FC_OUTPUT, place)
        if over:
            says = f"{error:.2g} of its length apart, bound {tolerance.worst:.2g}"
            ledger.differs(rules.FC_OUTPUT, Difference(place=place, tensor="fc_out", cause=cause, says=says))
    return figures


def _cause(given_RC: Tensor, made_RH: Tensor, base: Drafter, build: Callable[[Variant], Drafter], tolerance: Tolerance) -> str:
    def fits(ours_RH: Tensor) -> bool:
        return ours_RH.shape == made_RH.shape and bool((row_errors(made_RH, ours_RH.cpu()) <= tolerance.worst).all())

    if fits(given_RC):
        return "is fc's own input: fc is skipped"
    for order in _orders(base.wiring.states):
        parts = given_RC.chunk(base.wiring.states, dim=1)
        if fits(base.fuse(torch.cat([parts[i] for i in order], dim=1))):
            return f"is what fc gives with its states in the order {list(order)}"
    for words, wiring in _other_wirings(base.wiring):
        try:
            if fits(build(Variant(words, wiring)).fuse(given_RC)):
                return f"is what fc gives {words}"
        except UserError:
            continue
    scale = float((made_RH * base.fuse(given_RC).cpu()).sum() / base.fuse(given_RC).cpu().square().sum().clamp_min(1e-30))
    if fits(base.fuse(given_RC) * scale):
        return f"is {scale:.4g} times what fc gives"
    return "is not what fc gives on its own input, and no variant that was tried gives it"


def _orders(states: int) -> Iterator[tuple[int, ...]]:
    first = tuple(range(states))
    if states <= ORDERS_UP_TO:
        yield from (p for p in itertools.permutations(first) if p != first)
        return
    for i, j in itertools.combinations(first, 2):
        swapped = list(first)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        yield tuple(swapped)


def _other_wirings(base: Wiring) -> Iterator[tuple[str, Wiring]]:
    for norms in NORMS:
        if norms != base.norms_before_fc:
            words = f"behind {norms[0].value}" if norms else "without the norms before it"
            yield words, replace(base, norms_before_fc=norms)
    yield ("without its bias" if base.fc_bias else "with a bias"), replace(base, fc_bias=not base.fc_bias)
