"""Where two forwards of one drafter part: the first step, the first intermediate tensor, the first rows.

Legend: R rows of a sequence, L alive rows of a step, W width of an intermediate tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from contract.findings import Check, Json, Rule, Where
from contract.numerics.sinks import RowSummary, summarise
from contract.numerics.statistics import compare
from contract.numerics.tolerance import Tolerance
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.verify import rules

EXACT: Final = Tolerance(median=1e-5, worst=1e-4, source="float32 forward")
"""Bound where both forwards saw the same bits: the same code in float32 on one machine, up to the order of a sum."""
GAIN: Final = 4.0
"""How much the drafter may amplify a relative error of its input in the median row: chosen with room, not a measured limit. Clean
bfloat16 captures of the demo pair give at most 0.34 (`verify --format json`: paths.logits over states.slot, per sample)."""
WORST_GAIN: Final = 8.0
"""The same for the worst of some hundred rows. Rows whose attention is torn between two keys amplify most, and they need not be those whose
states are farthest apart: a clean bfloat16 capture of SmolLM2 gives 4.03 (drafter a) and 4.33 (drafter b) at step 1 over texts of 180 to
215 tokens."""
LOGIT_CAPS: Final = (0.2, 0.5)
"""Largest bounds for logits, median and worst row: where a single differing wiring switch already shows."""

WORDS: Final = {
    "fc_in": "the states that reach fc",
    "fc_normed": "the norms before fc",
    "fc_out": "fc",
    "embedding_normed": "the embedding and its norm",
    "hidden_normed": "the norm of the hidden stream",
    "attn_in": "the attention's input",
    "attn_out": "the attention (rope, window, heads, own keys)",
    "mlp_out": "the MLP",
    "out": "the residual",
    "final_normed": "the final norm",
    "logits": "the head",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first intermediate tensor beyond tolerance: step, name, per-row figures, and the first row beyond."""

    step: int
    name: str
    summary: RowSummary
    row: int

    @property
    def words(self) -> str:
        return WORDS[self.name.rsplit(".", 1)[-1]]


def first_parting(ours: Recorder, theirs: Recorder, bound: Tolerance) -> Parting | None:
    """Walk the intermediate tensors in the order of computation, and name the first that differs.

    A tensor that only one side has (fc is skipped, a norm is missing) is passed over: what follows it shows the difference.
    """
    for (step, name), a_LW in ours.values.items():
        b_LW = theirs.values.get((step, name))
        if b_LW is None or name == "logits":
            continue
        if a_LW.shape != b_LW.shape:
            return Parting(step=step, name=name, summary=RowSummary(0, float("inf"), float("inf"), 0, ()), row=0)
        summary, error_L = row_errors(b_LW, a_LW)
        if not bound.allows(summary.median, summary.worst, summary.worst_sink):
            beyond = (error_L > bound.worst) if bool((error_L > bound.worst).any()) else (error_L > bound.median)
            at = int(beyond.nonzero()[0]) if bool(beyond.any()) else 0
            return Parting(step=step, name=name, summary=summary, row=int(ours.rows[step][at]))
    return None


def row_errors(observed_LW: Tensor, reference_LW: Tensor) -> tuple[RowSummary, Tensor]:
    """Per-row relative errors [L] and their summary; a row that is not finite on either side is infinitely far."""
    rows = compare(observed_LW, reference_LW, histogram=False).rows
    return summarise(rows), rows.error


@dataclass(frozen=True, slots=True, kw_only=True)
class PathComparison:
    """Both paths on one sample: logits per step (live rows, both sides), and where they part first."""

    sample: str
    steps: Sequence[RowSummary]
    top1_equal: Sequence[float]
    parting: Parting | None
    bound: Tolerance


def compare_paths(
    sample: str,
    training: Sequence[Tensor],
    inference: Sequence[Tensor],
    bound: Tolerance,
    parting: Parting | None,
) -> PathComparison:
    """Compare the logits [R, DV] of every step on the rows that are alive on both sides.

    The tail of a document has no token to be fed on either side; a row that is dead on one side only counts as infinitely far.
    """
    steps: list[RowSummary] = []
    equal: list[float] = []
    for want_RD, got_RD in zip(training, inference, strict=True):
        live_R = want_RD.isfinite().all(1) | got_RD.isfinite().all(1)
        want_LD, got_LD = want_RD[live_R], got_RD[live_R]
        steps.append(row_errors(got_LD, want_LD)[0])
        equal.append(float((want_LD.argmax(1) == got_LD.argmax(1)).double().mean()) if len(want_LD) else float("nan"))
    return PathComparison(sample=sample, steps=steps, top1_equal=equal, parting=parting, bound=bound)


def path_checks(comparisons: Sequence[PathComparison], *, reader: str, rule: Rule = rules.PATH_LOGITS) -> Iterator[Check]:
    """One check per step over all samples; the message of a failure names where the paths part.

    Args:
        comparisons: one per sample.
        reader: whose wiring the inference path has.
        rule: what is said about: both paths, or both wirings on the same states.
    """
    if not comparisons:
        return
    what = "paths" if rule is rules.PATH_LOGITS else "wirings, on the states that were fed,"
    for step in range(len(comparisons[0].steps)):
        ranked = sorted(comparisons, key=lambda c: c.steps[step].median, reverse=True)
        over = [c for c in ranked if not _within(c, step)]
        worst = over[0] if over else ranked[0]
        summary = worst.steps[step]
        agreement = sum(c.top1_equal[step] for c in comparisons) / len(comparisons)
        evidence: dict[str, Json] = {
            "per_sample": {
                c.sample: {
                    "median": c.steps[step].median,
                    "worst": c.steps[step].worst,
                    "worst_row": c.steps[step].worst_row,
                    "top1_equal": c.top1_equal[step],
                }
                for c in comparisons
            },
            "tolerance": {"median": worst.bound.median, "worst": worst.bound.worst, "source": worst.bound.source},
        }
        figures = f"median {summary.median:.2g}, worst {summary.worst:.2g} in row {summary.worst_row}"
        if not over:
            yield rule.passed(
                f"step {step}: the logits of both {what} agree on {len(comparisons)} samples ({figures} in {worst.sample}); top-1 "
                f"equal in {agreement:.1%}",
                where=Where(step=step),
                evidence=evidence,
            )
            continue
        place = ""
        if worst.parting is not None:
            p = worst.parting
            evidence["parting"] = {"step": p.step, "tensor": p.name, "row": p.row, "median": p.summary.median, "worst": p.summary.worst}
            place = f"; they part first at {p.name} of step {p.step} ({p.words}), from row {p.row} on"
        yield rule.failed(
            f"step {step}: {_cause(worst, reader)}: logits differ on {len(over)} of {len(comparisons)} samples "
            f"({figures} in {worst.sample}), top-1 equal in {agreement:.1%}{place}",
            expected=f"median <= {worst.bound.median:.2g}, worst <= {worst.bound.worst:.2g}",
            actual=f"median {summary.median:.3g}, worst {summary.worst:.3g}",
            where=Where(step=step, sample=worst.sample, row=summary.worst_row),
            evidence=evidence,
        )


def _cause(c: PathComparison, reader: str) -> str:
    if c.parting is not None and c.parting.name == "fc_in":
        return f"{reader} feeds the drafter other states than training did"
    return f"{reader} runs the drafter in another way than training did"


def _within(c: PathComparison, step: int) -> bool:
    s = c.steps[step]
    return c.bound.allows(s.median, s.worst, s.worst_sink)


def bound_for(state_medians: Sequence[float], state_worsts: Sequence[float]) -> Tolerance:
    """The logit bound that follows from how far the states themselves are apart on this sample.

    Equal bits in, nearly equal bits out; noisy states may be amplified ``GAIN`` times, in the worst row ``WORST_GAIN`` times, up to
    ``LOGIT_CAPS``.
    """
    median, worst = max(state_medians, default=0.0), max(state_worsts, default=0.0)
    if median == 0.0 and worst == 0.0:
        return EXACT
    return Tolerance(
        median=min(max(EXACT.median, GAIN * median), LOGIT_CAPS[0]),
        worst=min(max(EXACT.worst, WORST_GAIN * worst), LOGIT_CAPS[1]),
        source="distance of the states",
    )
