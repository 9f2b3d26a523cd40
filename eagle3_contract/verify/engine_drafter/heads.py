"""The engine's logits against our head on the engine's own final state, and the vocab map that shows in them.

Engines show logits of the draft vocabulary (SGLang), or of the target's with -inf for every token that no draft id stands for (vLLM).

Legend: m logit rows of a forward, W width of the logits shown, DV draft vocabulary, V target vocabulary, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contract.errors import UserError
from contract.findings import Json, Rule
from contract.numerics.statistics import row_errors
from contract.numerics.tolerance import NoTolerance, Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import USED, Row
from eagle3_contract.verify.engine_drafter.bounds import Floor, bound
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.maps import Maps
from eagle3_contract.verify.engine_drafter.subject import Subject
from eagle3_contract.verify.engine_drafter.variants import Variant


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Logits [W] of one used row, and the state that the head was given [H]."""

    subject: Subject
    row: Row
    logits_W: Tensor
    final_H: Tensor


def shown(subjects: Sequence[Subject]) -> Iterator[Shown]:
    """Every used row whose logits and final state were recorded."""
    for subject in subjects:
        for forward in subject.recorded.forwards:
            logits, at, final = (forward.get(n) for n in ("logits", "logit_rows", "final_normed"))
            if logits is None or final is None:
                continue
            rows = list(range(forward.info.rows)) if at is None else [int(i) for i in at.tolist()]
            of_forward = subject.account.rows_of(forward.number)
            for i, r in enumerate(rows[: len(logits)]):
                if 0 <= r < len(of_forward) and of_forward[r].kind in USED:
                    yield Shown(subject, of_forward[r], logits[i].to(torch.float32), final[r].to(torch.float32))


@torch.no_grad()
def heads(
    subjects: Sequence[Subject],
    base: Drafter,
    rounded: Drafter | None,
    maps: Maps,
    *,
    dtype: str,
    limit: float | None,
    variants: Callable[[], Iterable[Variant]],
    build: Callable[[Variant], Drafter],
    ledger: Ledger,
) -> dict[str, Json]:
    """Compare the logits of every used row; returns the measurement. Arguments as ``layers.layers``."""
    rows = list(shown(subjects))
    if not rows:
        ledger.unknown(rules.LOGITS, "logits, or the state they are made of, were not recorded", sum(len(s.account.rows) for s in subjects))
        return {}
    final_RH = torch.stack([s.final_H for s in rows])
    ours_RD = base.head(final_RH.to(base.device)).cpu()
    floor = None
    if rounded is not None:
        floor = Floor.of(row_errors(rounded.head(final_RH.to(rounded.device, rounded.dtype)).cpu(), ours_RD))
    tolerance = bound(dtype, 1, floor, limit)
    if isinstance(tolerance, NoTolerance):
        ledger.unknown(rules.LOGITS, tolerance.reason, len(rows))
        return {}
    theirs_RD = [maps.in_draft_order(s.logits_W) for s in rows]
    errors = torch.tensor([_error(t, o) for t, o in zip(theirs_RD, ours_RD, strict=True)], dtype=torch.float64)
    loose = float(errors.median()) <= tolerance.median
    beyond = errors > (tolerance.worst if loose else tolerance.median)
    for s, over in zip(rows, beyond.tolist(), strict=True):
        if not over:
            ledger.compared(rules.LOGITS, s.subject.place(s.row))
    measurement: dict[str, Json] = {"rows": len(rows), "median": float(errors.median()), "worst": float(errors.max())}
    measurement["bound"] = {"median": tolerance.median, "worst": tolerance.worst, "source": tolerance.source}
    if not bool(beyond.any()):
        ledger.says(rules.LOGITS, f"median {measurement['median']:.2g}, worst {measurement['worst']:.2g}")
        return measurement
    wrong = [i for i, over in enumerate(beyond.tolist()) if over]
    cause, rule = _cause([rows[i] for i in wrong], final_RH[wrong], ours_RD[wrong], maps, tolerance, variants, build)
    for i in wrong:
        place = rows[i].subject.place(rows[i].row)
        ledger.compared(rule, place)
        says = f"{float(errors[i]):.2g} of their length apart, bound {tolerance.worst:.2g}"
        ledger.differs(rule, Difference(place=place, tensor="logits", cause=cause, says=says))
    return measurement


def _error(theirs_D: Tensor, ours_D: Tensor) -> float:
    if theirs_D.shape != ours_D.shape:
        return float("inf")
    return float(row_errors(theirs_D[None], ours_D[None])[0])


def _cause(
    rows: Sequence[Shown],
    final_RH: Tensor,
    ours_RD: Tensor,
    maps: Maps,
    tolerance: Tolerance,
    variants: Callable[[], Iterable[Variant]],
    build: Callable[[Variant], Drafter],
) -> tuple[str, Rule]:
    """What the logits of the rows that differ are, and the rule that this is about."""
    logits_RW = [s.logits_W for s in rows]
    widths = {len(z) for z in logits_RW}
    if len(widths) == 1:
        found = maps.explain(torch.stack(logits_RW), ours_RD, tolerance)
        if found is not None:
            return found, rules.VOCAB_MAP
    for variant in variants():
        if not variant.changed & {"lm_head", "logit_scale"}:
            continue
        try:
            made_RD = build(variant).head(final_RH).cpu()
        except UserError:
            continue
        if all(_error(maps.in_draft_order(z), made) <= tolerance.worst for z, made in zip(logits_RW, made_RD, strict=True)):
            why = f" ({variant.because})" if variant.because else ""
            return f"are not those of our head on the engine's final state; {variant.name} gives them{why}", rules.LOGITS
    return "are not those of our head on the engine's final state, and no head that was tried gives them", rules.LOGITS
