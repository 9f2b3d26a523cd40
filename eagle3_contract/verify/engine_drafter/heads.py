"""The engine's logits against our head on the engine's own final state, and the vocab map that shows in them.

Engines show logits of the draft vocabulary (SGLang), or of the target's with -inf for every token that no draft id stands for (vLLM).

Legend: m logit rows of a forward, W width of the logits shown, DV draft vocabulary, V target vocabulary, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """Logits [W] of one used row, number ``index`` of its request, and the state that the head was given [H]."""

    subject: Subject
    row: Row
    index: int
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
                    index = subject.account.of_forward[forward.number].start + r
                    yield Shown(subject, of_forward[r], index, logits[i].to(torch.float32), final[r].to(torch.float32))


@torch.no_grad()
def heads(
    subjects: Sequence[Subject],
    base: Drafter,
    rounded: Drafter | None,
    maps: Maps,
    finals: Mapping[str, Tensor],
    *,
    dtype: str,
    limit: float | None,
    variants: Callable[[], Iterable[Variant]],
    build: Callable[[Variant], Drafter],
    ledger: Ledger,
) -> dict[str, Json]:
    """Compare the logits of every used row with our head on the engine's final state; returns the measurement.

    How far they are from our head on our own final state (``finals``, [M, H] by request), that is through the whole drafter, is measured,
    too. The other arguments are those of ``layers.layers``.
    """
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
    errors = _errors(theirs_RD, ours_RD)
    loose = float(errors.median()) <= tolerance.median
    beyond = errors > (tolerance.worst if loose else tolerance.median)
    for s, over in zip(rows, beyond.tolist(), strict=True):
        if not over:
            ledger.compared(rules.LOGITS, s.subject.place(s.row))
    measurement: dict[str, Json] = {"rows": len(rows), "median": float(errors.median()), "worst": float(errors.max())}
    measurement["bound"] = {"median": tolerance.median, "worst": tolerance.worst, "source": tolerance.source}
    whole = _through(rows, theirs_RD, base, finals)
    if whole.numel():
        measurement["through_the_whole"] = {"rows": whole.numel(), "median": float(whole.median()), "worst": float(whole.max())}
    if not bool(beyond.any()):
        more = f"; through the whole drafter {float(whole.median()):.2g} and {float(whole.max()):.2g}" if whole.numel() else ""
        ledger.says(rules.LOGITS, f"median {measurement['median']:.2g}, worst {measurement['worst']:.2g}{more}")
        return measurement
    wrong = [i for i, over in enumerate(beyond.tolist()) if over]
    cause, rule = _cause([rows[i] for i in wrong], final_RH[wrong], ours_RD[wrong], maps, tolerance, variants, build)
    for i in wrong:
        place = rows[i].subject.place(rows[i].row)
        ledger.compared(rule, place)
        says = f"{float(errors[i]):.2g} of their length apart, bound {tolerance.worst:.2g}"
        ledger.differs(rule, Difference(place=place, tensor="logits", cause=cause, says=says))
    return measurement


def _through(rows: Sequence[Shown], theirs_RD: Sequence[Tensor], base: Drafter, finals: Mapping[str, Tensor]) -> Tensor:
    """Distances of the logits from those that our layers and our head give together."""
    kept = [(i, finals[s.subject.recorded.id][s.index]) for i, s in enumerate(rows) if s.subject.recorded.id in finals]
    if not kept:
        return torch.empty(0)
    ours_KD = base.head(torch.stack([final for _, final in kept]).to(base.device)).cpu()
    return _errors([theirs_RD[i] for i, _ in kept], ours_KD)


def _errors(theirs: Sequence[Tensor], ours_RD: Tensor) -> Tensor:
    """Relative distance of each row [R]; of a row of another width it is infinite."""
    fits = torch.tensor([t.shape == ours_RD.shape[1:] for t in theirs])
    errors = torch.full((len(theirs),), float("inf"), dtype=torch.float64)
    if bool(fits.any()):
        errors[fits] = row_errors(torch.stack([t for t, fit in zip(theirs, fits.tolist(), strict=True) if fit]), ours_RD[fits])
    return errors


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
        if bool((_errors([maps.in_draft_order(z) for z in logits_RW], made_RD) <= tolerance.worst).all()):
            why = f" ({variant.because.rstrip('.')})" if variant.because else ""
            return f"are not those of our head on the engine's final state; {variant.name} gives them{why}", rules.LOGITS
    theirs = [maps.in_draft_order(z) for z in logits_RW]
    if all(t.shape == ours_RD.shape[1:] for t in theirs):
        scale = float((torch.stack(theirs) * ours_RD).sum() / ours_RD.square().sum().clamp_min(1e-30))
        if bool((_errors(theirs, ours_RD * scale) <= tolerance.worst).all()):
            return f"are {scale:.4g} times those of our head on the engine's final state", rules.LOGITS
    return "are not those of our head on the engine's final state, and no head that was tried gives them", rules.LOGITS
