"""Accuracy and accepted length of both paths: added up sample by sample, compared as pairs, held against what the contract claims.

Legend: S steps, T tokens, DV draft vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from torch import Tensor

from contract.errors import UserError
from contract.findings import Check, Depth, Json, Where
from contract.statement import fact
from contract.words import first_few
from eagle3_contract.drafter.documents import documents
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.verify import rules
from eagle3_contract.verify.acceptance import DEFINITION, NO_DRAFT, Acceptance, chain, first_round, pooled
from eagle3_contract.verify.best import Best
from eagle3_contract.verify.bootstrap import CONFIDENCE, resampled
from eagle3_contract.verify.metrics import Accuracy, Definition, StepCounts, TargetTokens, count_steps
from eagle3_contract.verify.target_tokens import NO_TARGET

STANDARD_ERRORS: Final = 2.0
"""A claim fails only below itself minus so many standard errors of the samples at hand."""
TIES: Final = 8
"""Rows, or accepted drafts, that one path has to get less in all before it is the worse one. Logits that are equal but for rounding rank
near ties either way: eight that all fall to the same side are a chance of 0.4%, whatever the spread over few samples says."""
SHARE_APART: Final = 0.5
"""A sample is apart from the others below this share of their accuracy ..."""
ERRORS_APART: Final = 6.0
"""... and so many standard errors of its own rows below it."""
ROWS_APART: Final = 32
"""Counted rows from which on a sample is looked at by itself."""
NORMAL: Final = 1.959963984540054
"""Standard errors on either side that hold ``CONFIDENCE`` of a normal distribution."""
MANY: Final = 100
"""Samples up to which intervals are resampled; a ratio over more is normal enough, and resampling would take longer than the forward."""


@dataclass(slots=True)
class PathFigures:
    """Figures of one path, sample by sample. ``drafts`` is the k of the chain, at most ``steps``; ``first`` holds right and counted rows of
    the first step."""

    steps: int
    drafts: int
    accuracy: Accuracy = field(init=False)
    lengths: dict[str, Acceptance] = field(default_factory=dict)
    shares: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    first: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.accuracy = Accuracy(self.steps)

    def add(
        self,
        sample: str,
        logits_steps: Sequence[Tensor],
        targets_D: Tensor,
        tokens_T: Tensor,
        mask_T: Tensor | None,
        target: TargetTokens | None,
        definition: Definition | None,
        document_ids_T: Tensor | None = None,
    ) -> tuple[str, str] | None:
        """Add one sample: logits [T-1, DV] per step. Returns why its accuracy could not be counted, and the remedy, as ``measure`` does."""
        best = [Best.of(z) for z in logits_steps]
        length, counts, missing = measure(best, self.drafts, targets_D, tokens_T, mask_T, target, definition, document_ids_T)
        self.take(sample, length, counts)
        return missing

    def take(self, sample: str, length: Acceptance, counts: StepCounts | None) -> None:
        """Add one sample that was measured."""
        self.lengths[sample] = length
        if counts is not None:
            self.accuracy.add(counts)
            self.shares[sample] = counts.accuracy
            self.first[sample] = counts.right[0], counts.rows[0]

    @property
    def length(self) -> Acceptance:
        return pooled(self.lengths.values())

    def as_measurement(self) -> dict[str, Json]:
        """For the report: accuracy and acceptance of this path."""
        return {
            "accuracy": list(self.accuracy.accuracy),
            "accuracy_standard_error": list(self.accuracy.standard_error),
            "accuracy_interval": [_around(p, e) for p, e in zip(self.accuracy.accuracy, self.accuracy.standard_error, strict=True)],
            "confidence": CONFIDENCE,
            "right": list(self.accuracy.counts.right),
            "rows": list(self.accuracy.counts.rows),
            "samples": len(self.lengths),
            "accepted_length": self.length.length,
            "accepted_length_interval": list(interval(list(self.lengths.values()))),
            "drafts": self.drafts,
            "rounds": self.length.rounds,
            "accepted_drafts": self.length.accepted,
            "per_sample": {
                name: {"accepted_length": a.length, "rounds": a.rounds, "accuracy": list(self.shares.get(name, ()))}
                for name, a in self.lengths.items()
            },
        }


def measure(
    best_steps: Sequence[Best],
    drafts: int,
    targets_D: Tensor,
    tokens_T: Tensor,
    mask_T: Tensor | None,
    target: TargetTokens | None,
    definition: Definition | None,
    document_ids_T: Tensor | None = None,
) -> tuple[Acceptance, StepCounts | None, tuple[str, str] | None]:
    """Counts of one sample: the chain of ``drafts`` greedy drafts, and accuracy in a definition. Packed documents are counted each by
    itself and added up, since no draft reaches from one into the next.

    Returns:
        The chain's rounds; the counts per step (None without definition, target or mask); and where the definition needs more of the
        target than is at hand, why they are None and what to do about it.
    """
    length, counts, missing = Acceptance(), None, None
    for document in documents(document_ids_T, len(tokens_T)):
        rows, at = slice(document.start, document.start + document.tokens - 1), slice(document.start, document.start + document.tokens)
        best = [b.rows(rows) for b in best_steps]
        mask = None if mask_T is None else mask_T[at]
        chosen = [_drafts(b, targets_D) for b in best[:drafts]]
        length = length + chain(tokens_T[at].tolist(), chosen, start=first_round(None if mask is None else mask.tolist()))
        if definition is None or target is None or mask is None:
            continue
        try:
            own = count_steps(definition, best, targets_D, target.rows(at), mask)
        except UserError as error:
            missing = (error.message, error.fix)
            continue
        counts = own if counts is None else counts + own
    return length, None if missing is not None else counts, missing


def _drafts(best: Best, targets_D: Tensor) -> list[int]:
    drafts: list[int] = np.where(best.finite.numpy(), targets_D.numpy()[best.ids.numpy()], NO_DRAFT).tolist()
    return drafts


def definition_of(loaded: LoadedContract) -> Definition | None:
    """The definition of accuracy that the contract names, if it is known."""
    stated = fact(loaded.contract.training.metrics.definition)
    return Definition(stated.value) if stated.known else None


def claim_checks(loaded: LoadedContract, training: PathFigures, missing: tuple[str, str] | None) -> Iterator[Check]:
    """The claimed accuracy against the training path's, step by step; undecided if the target's tokens are not at hand (``missing``)."""
    where = loaded.document.where("training.metrics")
    claimed, definition = fact(loaded.contract.training.metrics.accuracy), fact(loaded.contract.training.metrics.definition)
    for stated, what in ((claimed, "accuracy"), (definition, "definition")):
        if not stated.known:
            yield rules.CLAIM.undecided(
                f"the contract claims no training accuracy: {what} unknown ({stated.reason})", required=False, where=where
            )
            return
    if not claimed.value:
        yield rules.CLAIM.undecided("the contract claims no training accuracy: the list of steps is empty", required=False, where=where)
        return
    if training.accuracy.samples == 0:
        reason, fix = missing or ("no sample could be counted", NO_TARGET[1])
        yield rules.CLAIM.undecided(f"the training accuracy could not be measured: {reason}", at=Depth.VERIFY, where=where, fix=fix)
        return
    measured, errors = training.accuracy.accuracy, training.accuracy.standard_error
    for step, claim in enumerate(claimed.value):
        if step >= training.steps or measured[step] is None:
            yield rules.CLAIM.undecided(f"step {step}: claimed {claim:.3f}, not measured", at=Depth.VERIFY, where=where)
            continue
        got, error = float(measured[step] or 0.0), float(errors[step] or 0.0)
        text = (
            f"step {step}: {definition.value} {got:.3f} ± {error:.3f} on {training.accuracy.samples} samples "
            f"({training.accuracy.counts.rows[step]} rows), claimed {claim:.3f}"
        )
        figures = {"step": step, "measured": got, "standard_error": error, "claimed": claim, "definition": definition.value}
        check = rules.CLAIM.passed if got >= claim - STANDARD_ERRORS * error else rules.CLAIM.failed
        yield check(text, expected=f">= {claim - STANDARD_ERRORS * error:.3f}", actual=got, where=where, evidence=figures)


def apart_check(training: PathFigures) -> Iterator[Check]:
    """Samples whose first-step accuracy is less than half of the others', beyond what so few rows can do by chance; one check."""
    all_right, all_rows = map(sum, zip(*training.first.values(), strict=True)) if training.first else (0, 0)
    apart: dict[str, Json] = {}
    looked_at = 0
    for name, (right, rows) in training.first.items():
        others = all_rows - rows
        if rows < ROWS_APART or others < rows:
            continue
        looked_at += 1
        share = (all_right - right) / others
        error = math.sqrt(rows * share * (1 - share))
        if right < SHARE_APART * rows * share and rows * share - right > ERRORS_APART * error:
            apart[name] = {"accuracy": right / rows, "others": share, "rows": rows}
    if not looked_at:
        return
    if not apart:
        yield rules.SAMPLES_APART.passed(f"none of {looked_at} samples fares far worse than the others")
        return
    name = min(apart, key=lambda n: training.first[n][0] / training.first[n][1])
    right, rows = training.first[name]
    yield rules.SAMPLES_APART.failed(
        f"{len(apart)} of {looked_at} samples fare far worse than the others: {first_few(list(apart))} (first step {right / rows:.3f} in "
        f"{name}, {(all_right - right) / (all_rows - rows):.3f} in the others)",
        where=Where(sample=name),
        evidence={"samples": apart},
    )


def path_figures_checks(training: PathFigures, inference: PathFigures) -> Iterator[Check]:
    """Inference against training, as pairs of samples."""
    both = [name for name in training.lengths if name in inference.lengths and training.lengths[name].rounds]
    for step in range(training.steps):
        pairs = [
            (float(a), float(b))
            for name in training.shares
            if name in inference.shares
            and (a := training.shares[name][step]) is not None
            and (b := inference.shares[name][step]) is not None
        ]
        if not pairs:
            continue
        drop, error = _mean_and_error([a - b for a, b in pairs])
        rows = training.accuracy.counts.rows[step] * len(pairs) / training.accuracy.samples
        before, after = sum(a for a, _ in pairs) / len(pairs), sum(b for _, b in pairs) / len(pairs)
        text = f"step {step}: accuracy {before:.3f} on the training path, {after:.3f} on the inference path ({len(pairs)} samples)"
        figures = {"step": step, "drop": drop, "standard_error": error, "samples": len(pairs)}
        worse = drop > STANDARD_ERRORS * error and round(drop * rows) >= TIES
        yield (rules.DROP.failed if worse else rules.DROP.passed)(text, expected=before, actual=after, evidence=figures)
    if not both:
        return
    low, high = paired_bootstrap([(training.lengths[n], inference.lengths[n]) for n in both])
    before_, after_ = pooled(training.lengths[n] for n in both).length, pooled(inference.lengths[n] for n in both).length
    text = (
        f"accepted length {before_:.3f} on the training path, {after_:.3f} on the inference path "
        f"(difference {before_ - after_:+.3f}, {CONFIDENCE:.0%} interval {low:+.3f} to {high:+.3f}; {DEFINITION})"
    )
    evidence: dict[str, Json] = {"difference": before_ - after_, "interval": [low, high], "samples": len(both), "definition": DEFINITION}
    rounds = sum(training.lengths[n].rounds for n in both)
    worse = low > 0 and round((before_ - after_) * rounds) >= TIES
    yield (rules.LENGTH.failed if worse else rules.LENGTH.passed)(text, expected=before_, actual=after_, evidence=evidence)


def floor_check(loaded: LoadedContract, figures: PathFigures, path: str) -> Iterator[Check]:
    """The accepted length of a path against the contract's floor, if it states one for this number of drafts."""
    floor, k = fact(loaded.contract.acceptance.floor), fact(loaded.contract.acceptance.k)
    where = loaded.document.where("acceptance.floor")
    if not floor.known or not figures.length.rounds:
        return
    if k.known and k.value != figures.drafts:
        yield rules.FLOOR.undecided(f"the floor is stated for {k.value} drafts, {figures.drafts} were made", where=where)
        return
    low, high = interval(list(figures.lengths.values()))
    got = figures.length.length
    text = f"accepted length {got:.3f} on the {path} path ({CONFIDENCE:.0%} interval {low:.3f} to {high:.3f}), floor {floor.value:.3f}"
    evidence: dict[str, Json] = {"accepted_length": got, "interval": [low, high], "definition": DEFINITION}
    if high < floor.value:
        yield rules.FLOOR.failed(text, expected=f">= {floor.value}", actual=got, where=where, evidence=evidence)
    else:
        yield rules.FLOOR.passed(text, expected=f">= {floor.value}", actual=got, where=where, evidence=evidence)


def coverage_check(loaded: LoadedContract, covered: int, total: int) -> Iterator[Check]:
    """Coverage of the counted target tokens by the draft vocabulary, held against the claimed first-step accuracy."""
    claimed = fact(loaded.contract.training.metrics.accuracy)
    definition = definition_of(loaded)
    if not total:
        return
    share = covered / total
    error = math.sqrt(share * (1 - share) / total)
    text = f"the draft vocabulary covers {share:.1%} of the target's {total} tokens on the samples"
    evidence: dict[str, Json] = {"covered": covered, "total": total, "share": share}
    full = definition in (Definition.EAGLE, Definition.ANGELSLIM, Definition.SPECFORGE)
    if full and claimed.known and claimed.value and share + STANDARD_ERRORS * error < claimed.value[0]:
        yield rules.COVERAGE.failed(
            f"{text}, so a first-step accuracy of {claimed.value[0]:.3f} is out of reach",
            expected=f">= {claimed.value[0]:.3f}",
            actual=share,
            evidence=evidence,
        )
    else:
        yield rules.COVERAGE.passed(text, actual=share, evidence=evidence)


def paired_bootstrap(pairs: Sequence[tuple[Acceptance, Acceptance]]) -> tuple[float, float]:
    """Interval of the difference of pooled lengths (first minus second), resampling whole samples as pairs."""
    return resampled(pairs, lambda chosen: pooled(a for a, _ in chosen).length - pooled(b for _, b in chosen).length)


def interval(parts: Sequence[Acceptance]) -> tuple[float, float]:
    """Interval of a pooled length over whole samples: resampled, or for very many samples from the spread of the ratio between them, which
    is the same then and takes no time."""
    if not any(a.rounds for a in parts):
        return float("nan"), float("nan")
    if len(parts) <= MANY:
        return resampled([(a.accepted, a.rounds) for a in parts], _length)
    whole = pooled(parts)
    ratio = whole.accepted / whole.rounds
    spread = sum((a.accepted - ratio * a.rounds) ** 2 for a in parts) * len(parts) / (len(parts) - 1)
    margin = NORMAL * math.sqrt(spread) / whole.rounds
    return whole.length - margin, whole.length + margin


def _length(chosen: Sequence[tuple[int, int]]) -> float:
    accepted, rounds = map(sum, zip(*chosen, strict=True))
    return 1 + accepted / rounds if rounds else float("nan")


def _around(share: float | None, error: float | None) -> Json:
    """An interval of a share, cut to what a share can be."""
    if share is None or error is None:
        return None
    return [max(0.0, share - NORMAL * error), min(1.0, share + NORMAL * error)]


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    spread = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return mean, math.sqrt(spread / len(values))
