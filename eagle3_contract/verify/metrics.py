"""The trainers' definitions of accuracy: the same predictions are 0.77, 0.94 or 0.91, depending on who counts.

Row t of step s is the drafter's prediction after it was fed (state of step s-1, x[t+1+s]); it is right if it names the target's
argmax after token t+1+s. Rows exist while t+1+s < T. What differs is which rows count, and what a target token outside the draft
vocabulary does:

=====================  =================================================  ===========================  ===========================
definition             right                                              rows                         source
=====================  =================================================  ===========================  ===========================
eagle.acc              names the target's argmax over all tokens          mask[t+s]                    EAGLE cb7e084
                                                                                                       traineagle3/cnets.py:858
angelslim.acc          as eagle.acc                                       mask[t+s]                    AngelSlim 0.5.0
                                                                                                       eagle3_trainer.py:283-285
specforge.acc          as eagle.acc                                       mask[t+s], last entry        SpecForge 0.2.0 algorithms/
                                                                          zeroed                       eagle3/{model.py:161-173,
                                                                                                       data.py:10-27}
torchspec.acc          as eagle.acc                                       mask[t+s] and the target's   TorchSpec 6f21829
                                                                          argmax is in the draft       eagle3.py:175-180,
                                                                          vocabulary                   ops/loss.py
speculators.full_acc   names the argmax *within the draft vocabulary*,    mask[t+1+s]                  speculators 0.9.0
                       at this and all earlier steps                                                   metrics.py
speculators.cond_acc   as full_acc                                        rows right at all earlier    speculators 0.9.0
                                                                          steps                        metrics.py
modelopt.train_acc     names the argmax within the draft vocabulary       mask[t+1+s]                  ModelOpt 0.47.0
                                                                                                       hf_eagle.py:865-870
=====================  =================================================  ===========================  ===========================

Trainers log the mean over batches of such ratios; here counts are pooled over samples, which is the same for batches of equal size.
The loss mask is the trainer's own, one entry per token of the sample, unshifted.

Legend: T tokens of a sample, V target vocabulary, DV draft vocabulary; a suffix names the dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contract.errors import UserError
from eagle3_contract.verify.best import Best


class Definition(StrEnum):
    """Whose definition of accuracy; the names the contract records under ``training.metrics.definition``."""

    EAGLE = "eagle.acc"
    ANGELSLIM = "angelslim.acc"
    SPECFORGE = "specforge.acc"
    TORCHSPEC = "torchspec.acc"
    SPECULATORS_FULL = "speculators.full_acc"
    SPECULATORS_COND = "speculators.cond_acc"
    MODELOPT = "modelopt.train_acc"


WITHIN_DRAFT_VOCABULARY = frozenset({Definition.SPECULATORS_FULL, Definition.SPECULATORS_COND, Definition.MODELOPT})
"""Definitions that compare with the target's best token *within* the draft vocabulary, under mask[t+1+s]. The others compare over the
full vocabulary, under the mask one token earlier."""


@dataclass(frozen=True, slots=True)
class TargetTokens:
    """What the target would say after each token.

    Attributes:
        full: [T] int64, argmax over the target vocabulary.
        draft: [T] int64, argmax within the draft vocabulary, as a draft id; None where only the argmax was recorded.
    """

    full: Tensor
    draft: Tensor | None = None

    def rows(self, at: slice) -> TargetTokens:
        """Those of some rows: a document of a packed sample."""
        return TargetTokens(self.full[at], None if self.draft is None else self.draft[at])

    @classmethod
    def from_logits(cls, logits_TV: Tensor, targets_D: Tensor) -> TargetTokens:
        """From the target's logits [T, V] and the target id of each draft id [DV]."""
        return cls(Best.of(logits_TV).ids, Best.of(logits_TV[:, targets_D]).ids)


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Right rows and counted rows per step of one sample, or of several added up."""

    right: tuple[int, ...]
    rows: tuple[int, ...]

    def __add__(self, other: StepCounts) -> StepCounts:
        if len(self.rows) != len(other.rows):
            raise ValueError(f"{len(self.rows)} steps cannot be added to {len(other.rows)}")
        return StepCounts(
            tuple(map(sum, zip(self.right, other.right, strict=True))), tuple(map(sum, zip(self.rows, other.rows, strict=True)))
        )

    @property
    def accuracy(self) -> tuple[float | None, ...]:
        """Right / rows per step; None where no row counted."""
        return tuple(r / n if n else None for r, n in zip(self.right, self.rows, strict=True))


def looked_at(mask_T: Tensor, steps: int) -> Tensor:
    """[T] bool: the tokens of the target that ``count_steps`` looks at in any definition, and those under the mask itself.

    Row t of step s is held against the target's token t+1+s, and counted by a mask at t+s or t+1+s; what is right at every earlier step
    is a matter of the masks before those, as far back as the steps reach.
    """
    mask = mask_T.bool().numpy()
    wanted = mask.copy()
    for back in range(1, min(steps, len(mask) - 1) + 1):
        wanted[back:] |= mask[:-back]
    return torch.from_numpy(wanted)


def count_steps(
    definition: Definition, best_T: Sequence[Best], targets_D: Tensor, target: TargetTokens, mask_T: Tensor | None
) -> StepCounts:
    """Count one sample in one trainer's definition.

    Args:
        definition: whose accuracy.
        best_T: per step the drafter's choice, [T-1] or longer; rows t > T-2-s are not looked at. A row that is not finite is never right.
        targets_D: [DV] the target id of each draft id.
        target: what the target says after each token, [T].
        mask_T: [T] the sample's loss mask.

    Raises:
        UserError: ``metrics.loss-mask-missing`` or ``metrics.target-logits-missing`` where the definition needs what is not there.
        ValueError: lengths disagree.
    """
    if mask_T is None:
        raise UserError(
            "the sample has no loss mask, and every trainer counts only rows under it",
            rule="metrics.loss-mask-missing",
            fix="Give the training data set that holds loss_mask, or samples that carry it.",
        )
    within = definition in WITHIN_DRAFT_VOCABULARY
    if within and target.draft is None:
        raise UserError(
            f"{definition} compares with the target's best token within the draft vocabulary, and only its argmax over the "
            "full vocabulary is recorded",
            rule="metrics.target-logits-missing",
            fix="Give the target (its head and final norm), so that its logits can be computed.",
        )
    tokens = len(target.full)
    if len(mask_T) != tokens:
        raise ValueError(f"mask of {len(mask_T)} entries for {tokens} tokens")
    # From here on in numpy: these are a dozen operations a step on some hundred numbers, and each takes torch three times as long.
    mask = mask_T.bool().numpy().copy()
    if definition is Definition.SPECFORGE and tokens:
        mask[-1] = False
    drawn = np.isin(target.full.numpy(), targets_D.numpy()) if definition is Definition.TORCHSPEC else None
    right, rows = [], []
    chain = mask[1:].copy()
    for step, best in enumerate(best_T):
        count = tokens - 1 - step
        if count < 1:
            right.append(0)
            rows.append(0)
            continue
        if len(best) < count:
            raise ValueError(f"step {step} has {len(best)} rows; {count} are due for {tokens} tokens")
        hit = _hits(best.rows(slice(count)), targets_D, target, slice(step + 1, None), within=within)
        if definition in (Definition.SPECULATORS_FULL, Definition.SPECULATORS_COND):
            before = chain[:count]
            chain = before & hit
            counted = mask[step + 1 :]
            right.append(int((chain & counted).sum()))
            first = definition is Definition.SPECULATORS_FULL
            rows.append(int(counted.sum() if first else before.sum()))
            continue
        counted = mask[step + 1 :] if within else mask[step:-1]
        if drawn is not None:
            counted = counted & drawn[step + 1 :]
        right.append(int((hit & counted).sum()))
        # The last token's row has no target, so it is never right, but EAGLE and AngelSlim count it where its mask is set.
        beyond = int(mask[-1]) if definition in (Definition.EAGLE, Definition.ANGELSLIM) else 0
        rows.append(int(counted.sum()) + beyond)
    return StepCounts(tuple(right), tuple(rows))


def _hits(best: Best, targets_D: Tensor, target: TargetTokens, at: slice, *, within: bool) -> npt.NDArray[np.bool_]:
    """[R] bool: which rows name the target's token."""
    if within:
        assert target.draft is not None
        right = best.ids.numpy() == target.draft.numpy()[at]
    else:
        right = targets_D.numpy()[best.ids.numpy()] == target.full.numpy()[at]
    found: npt.NDArray[np.bool_] = right & best.finite.numpy()
    return found


class Accuracy:
    """A pooled accuracy with its standard error. Holds whole numbers only, so that merging in any order gives the same figures.

    The error treats the samples as clusters (rows of one sample are alike): for the ratio p = sum r / sum n it is
    sqrt(m/(m-1) sum (r - p n)^2) / sum n over the m samples. From a single sample only the binomial error is known, too small a one.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.samples = 0
        self.counts = StepCounts((0,) * steps, (0,) * steps)
        self._rr, self._rn, self._nn = [0] * steps, [0] * steps, [0] * steps

    def add(self, counts: StepCounts) -> None:
        """Add one sample. Raises ValueError if it has another number of steps."""
        self.counts = self.counts + counts
        self.samples += 1
        for step, (r, n) in enumerate(zip(counts.right, counts.rows, strict=True)):
            self._rr[step] += r * r
            self._rn[step] += r * n
            self._nn[step] += n * n

    def merge(self, other: Accuracy) -> None:
        """Add the samples of ``other``. Raises ValueError if it has another number of steps."""
        self.counts = self.counts + other.counts
        self.samples += other.samples
        for mine, theirs in ((self._rr, other._rr), (self._rn, other._rn), (self._nn, other._nn)):
            mine[:] = [a + b for a, b in zip(mine, theirs, strict=True)]

    @property
    def accuracy(self) -> tuple[float | None, ...]:
        """Pooled accuracy per step; None where no row counted."""
        return self.counts.accuracy

    @property
    def standard_error(self) -> tuple[float | None, ...]:
        """Standard error per step; None where no row counted."""
        return tuple(self._error(step) for step in range(self.steps))

    def _error(self, step: int) -> float | None:
        right, rows = self.counts.right[step], self.counts.rows[step]
        if not rows:
            return None
        if self.samples < 2:
            return math.sqrt(right * (rows - right) / rows) / rows
        # sum (r - p n)^2 with p = right/rows, over a common denominator: exact in whole numbers up to the last division.
        spread = self._rr[step] * rows**2 - 2 * self._rn[step] * right * rows + self._nn[step] * right**2
        return math.sqrt(self.samples / (self.samples - 1) * (spread / rows**2)) / rows
