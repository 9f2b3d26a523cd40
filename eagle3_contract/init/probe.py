"""The paired probe: which of several readings of a checkpoint predicts the tokens of its own samples better, token by token.

Every hypothesis is run over the same rows (first step, teacher forced), and its cross-entropy is compared row by row: against what the
target says there, if its head and its last states are at hand (far less noise), else against the token that came. Top-1
does not see a rope; this does. The rows of a text are alike, so that an interval over single rows would be too small a one: the unit is a
block of neighbouring rows. A drafter that does not predict its samples better than the tokens of other rows is not
trained on them (or not under any of the hypotheses), and then the probe decides nothing.

Legend: T tokens, R rows that count, DV draft vocabulary, B blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor

from contract.errors import UserError
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.wiring import Reading
from eagle3_contract.trainers.sample import TrainingSample

BLOCK: Final = 16
"""Neighbouring rows that count as one observation."""
LEAST_BLOCKS: Final = 8
"""Fewer observations give no interval worth the name."""
SIGMAS: Final = 3.29
"""Half the width of the interval in standard errors: 99.9% of a normal distribution, since a wrong decision would be written down."""
APART: Final = 7
"""How far away the rows are whose tokens stand for chance."""
TOKENS: Final = 4096
"""Tokens that a probe runs at most, over every hypothesis."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference in cross-entropy (nats per token) with its interval. Positive: the second one predicts worse."""

    mean: float
    low: float
    high: float
    tokens: int

    def __str__(self) -> str:
        return f"{self.mean:+.4f} nats per token (99.9% interval {self.low:+.4f} to {self.high:+.4f}, {self.tokens} tokens)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a probe found.

    Attributes:
        best: the hypothesis with the lowest cross-entropy; None if the probe could not be made.
        against: each other hypothesis against the best one.
        decided: the best one is better than every other beyond its interval, and the drafter predicts its samples.
        reason: in words, also why nothing could be decided.
    """

    best: str | None
    against: Mapping[str, Difference]
    decided: bool
    reason: str
    trained: bool = False

    def beats(self, other: str) -> bool:
        """Whether the best hypothesis is better than this one beyond the interval."""
        return self.trained and other in self.against and self.against[other].low > 0


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A reading, and the indices of the states that it takes from a sample, in order (None: all)."""

    name: str
    reading: Reading
    picked: tuple[int, ...] | None = None


Says: TypeAlias = Callable[[TrainingSample, Tensor], Tensor]
"""What the target says after each token of a sample: log probabilities [T, DV] over the draft vocabulary, whose target ids are given."""


def probe(
    hypotheses: Sequence[Hypothesis],
    held: Sequence[TrainingSample],
    source: WeightSource,
    target: WeightSource | None,
    says: Says | None = None,
) -> Probe:
    """Compare hypotheses on samples. Never raises a ``UserError``: what cannot be run is a reason."""
    losses: dict[str, Tensor] = {}
    chance: Tensor | None = None
    for hypothesis in hypotheses:
        try:
            losses[hypothesis.name], other_R = _losses(hypothesis, held, source, target, says)
        except UserError as error:
            return Probe(best=None, against={}, decided=False, reason=f"the drafter does not run as {hypothesis.name}: {error.message}")
        if chance is None or float(losses[hypothesis.name].mean()) <= min(float(x.mean()) for x in losses.values()):
            chance = other_R
    assert chance is not None
    best = min(losses, key=lambda name: float(losses[name].mean()))
    rows = len(losses[best])
    if rows < BLOCK * LEAST_BLOCKS:
        return Probe(best=None, against={}, decided=False, reason=f"{rows} counted tokens are too few for an interval")
    against = {name: _difference(loss_R - losses[best]) for name, loss_R in losses.items() if name != best}
    gain = _difference(chance - losses[best])
    if not gain.low > 0:
        reason = f"the drafter predicts the samples' tokens no better than those of other rows ({gain}): it is not trained on them"
        return Probe(best=best, against=against, decided=False, reason=reason)
    decided = all(d.low > 0 for d in against.values())
    said = "; ".join(f"{name} is worse than {best} by {d}" for name, d in against.items())
    return Probe(best=best, against=against, decided=decided, trained=True, reason=said if decided else f"undecided: {said}")


def _losses(
    hypothesis: Hypothesis,
    held: Sequence[TrainingSample],
    source: WeightSource,
    target: WeightSource | None,
    says: Says | None,
) -> tuple[Tensor, Tensor]:
    """[R] cross-entropy at every counted row, and against what belongs to another row."""
    drafter = Drafter(hypothesis.reading.wiring, source, target_source=target)
    draft_of = {int(t): i for i, t in enumerate(drafter.target_ids.tolist())}
    own, other, left = [], [], TOKENS
    for sample in held:
        if left < 8:
            break
        length = min(sample.tokens, left)
        left -= length
        ids_T = sample.input_ids_T[:length]
        documents_T = None if sample.document_ids_T is None else sample.document_ids_T[:length]
        fed_TC = sample.fc_input(hypothesis.picked)[:length].to(torch.float32)
        logits_TD = teacher_forced(drafter, ids_T, fed_TC, document_ids_T=documents_T, steps=1).logits_steps[0]
        rows, tokens = _counted(sample, ids_T, documents_T, draft_of, drafter.wiring.token_shift)
        if len(rows) <= APART:
            continue
        logprob_RD = logits_TD[rows].log_softmax(-1)
        if says is not None:
            said_RD = says(sample, drafter.target_ids)[torch.tensor(rows) + drafter.wiring.token_shift].exp()
            own.append(-(said_RD * logprob_RD).sum(-1))
            other.append(-(said_RD.roll(APART, 0) * logprob_RD).sum(-1))
            continue
        token_R = torch.tensor(tokens)
        own.append(-logprob_RD.gather(1, token_R[:, None])[:, 0])
        other.append(-logprob_RD.gather(1, token_R.roll(APART)[:, None])[:, 0])
    if not own:
        return torch.zeros(0), torch.zeros(0)
    return torch.cat(own).double(), torch.cat(other).double()


def _counted(
    sample: TrainingSample, ids_T: Tensor, documents_T: Tensor | None, draft_of: Mapping[int, int], shift: int
) -> tuple[list[int], list[int]]:
    """Rows whose next token counts for the loss and can be drafted, and that token as a draft id. Row t predicts x[t + shift + 1]."""
    rows, tokens = [], []
    for t in range(len(ids_T) - shift - 1):
        at = t + shift + 1
        if sample.loss_mask_T is not None and not bool(sample.loss_mask_T[at]):
            continue
        if documents_T is not None and (int(documents_T[t]) != int(documents_T[at]) or int(documents_T[t]) < 0):
            continue
        draft = draft_of.get(int(ids_T[at]))
        if draft is not None:
            rows.append(t)
            tokens.append(draft)
    return rows, tokens


def _difference(difference_R: Tensor) -> Difference:
    """Mean of blocks and its interval. What is not finite decides nothing."""
    whole = len(difference_R) // BLOCK * BLOCK
    block_B = difference_R[:whole].reshape(-1, BLOCK).mean(1)
    mean = float(block_B.mean())
    error = float(block_B.std()) / math.sqrt(len(block_B))
    if not math.isfinite(mean) or not math.isfinite(error):
        return Difference(mean, -math.inf, math.inf, len(difference_R))
    return Difference(mean, mean - SIGMAS * error, mean + SIGMAS * error, len(difference_R))
