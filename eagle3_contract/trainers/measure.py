"""What dumped states say about themselves, without running the target: the recipe is measured where it can be, not believed.

Three tests need no forward: the embedding is a table that the tokens index, so a state either is those rows or is not; a state after
RMSNorm has root mean square 1 once the norm's weight is divided out, and one before it varies from row to row (in a residual stream by
a factor of five and more); and a state stored twice is equal to itself.

Legend: T tokens, G target hidden size, H drafter hidden size, V target vocabulary, DV draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import torch
from torch import Tensor

EMBEDDING_TOLERANCE: Final = 0.02
"""Median per-row relative error up to which a state is the embedding: bfloat16 rounding of a scaled table costs under 0.01; states after
one layer are above 0.5."""
NORMED_TOLERANCE: Final = 0.05
"""How far from 1 every row's root mean square may be after the norm's weight is divided out (bfloat16 rounding costs under 0.01)."""
NOT_NORMED_SPREAD: Final = 0.2
"""Median distance from 1, or relative spread between rows, from which a state certainly has not passed the norm."""
SMALL_WEIGHT: Final = 0.05
"""Weights of the norm below this share of their median are left out: dividing by them only magnifies rounding. The median, because
real norms have a few huge weights that would drown any mean (SmolLM2-135M)."""


class Answer(StrEnum):
    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An answer, the figure it rests on, and a sentence with both."""

    answer: Answer
    figure: float
    text: str


def is_embedding(state_TG: Tensor, ids_T: Tensor, rows: Callable[[Tensor], Tensor]) -> Measured:
    """Whether a state is the embedding of the tokens, as stored or times one constant (Gemma multiplies by sqrt(G)).

    Args:
        state_TG: a dumped state.
        ids_T: the sample's token ids.
        rows: the target's embedding rows [n, G] of n ids.

    The figure is the median per-row relative error under the best constant; the test works on distinct tokens, since a repeated one adds
    nothing.
    """
    distinct, first = _distinct(ids_T)
    table, state = rows(distinct).float(), state_TG[first].float()
    if table.shape != state.shape:
        return Measured(answer=Answer.NO, figure=float("inf"), text=f"the state is {state.shape[1]} wide, the embedding {table.shape[1]}")
    if torch.equal(table, state):
        return Measured(answer=Answer.YES, figure=0.0, text=f"bit-equal to the embedding rows of {len(distinct)} distinct tokens")
    norms = table.pow(2).sum(-1)
    scales = (table * state).sum(-1) / norms.clamp_min(1e-30)
    scale = float(scales.median())
    errors = (state - scale * table).norm(dim=-1) / state.norm(dim=-1).clamp_min(1e-30)
    error = float(errors.median())
    if not error <= EMBEDDING_TOLERANCE or abs(scale) < 1e-6:
        return Measured(answer=Answer.NO, figure=error, text=f"median relative error {error:.2g} to the embedding rows")
    if float(errors.max()) > 10 * EMBEDDING_TOLERANCE:
        text = f"median relative error {error:.2g} to the embedding rows, but the worst row is {float(errors.max()):.2g} off"
        return Measured(answer=Answer.UNDECIDED, figure=error, text=text)
    return Measured(answer=Answer.YES, figure=error, text=f"the embedding rows times {scale:.4g} (median relative error {error:.2g})")


def is_normed(state_TG: Tensor, norm_weight_G: Tensor, *, weight_offset: float = 0.0) -> Measured:
    """Whether a state has passed the target's final RMSNorm.

    Args:
        state_TG: a dumped state.
        norm_weight_G: the norm's weight.
        weight_offset: 1.0 for targets that multiply by (1 + weight), as Gemma.

    The figure is the largest distance of a row's root mean square from 1 after the weight is divided out.
    """
    weight = norm_weight_G.float() + weight_offset
    kept = weight.abs() > SMALL_WEIGHT * weight.abs().median()
    if int(kept.sum()) < max(8, len(weight) // 2):
        return Measured(answer=Answer.UNDECIDED, figure=float("nan"), text="too many of the norm's weights are near zero")
    whitened = state_TG[:, kept].float() / weight[kept]
    rms = whitened.pow(2).mean(-1).sqrt()
    # Leaving dimensions out shifts the mean square a little from row to row; their share bounds by how much.
    slack = NORMED_TOLERANCE + float(1 - kept.float().mean())
    worst, median = float((rms - 1).abs().max()), float(rms.median())
    spread = float(rms.std() / rms.mean()) if len(rms) > 1 else 0.0
    text = f"root mean square after dividing by the norm's weight: median {median:.3g}, worst row {worst:.2g} from 1"
    if worst <= slack:
        return Measured(answer=Answer.YES, figure=worst, text=text)
    if abs(median - 1) > NOT_NORMED_SPREAD or spread > NOT_NORMED_SPREAD:
        return Measured(answer=Answer.NO, figure=worst, text=text)
    return Measured(answer=Answer.UNDECIDED, figure=worst, text=text)


def repeated(states_THk: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Pairs of states that are bit-equal, first index first: one state stored twice, or a target that updates its stream in place."""
    pairs = []
    for j in range(len(states_THk)):
        for i in range(j):
            if states_THk[i].shape == states_THk[j].shape and torch.equal(states_THk[i], states_THk[j]):
                pairs.append((i, j))
    return pairs


class HeadRows(StrEnum):
    """Where the rows of a reduced head come from."""

    INDEPENDENT = "independent"
    TARGET_ROWS = "target_rows"
    BY_OFFSET = "by_offset"


def head_rows(head_RH: Tensor, draft_ids_R: Tensor, d2t_D: Tensor, rows: Callable[[Tensor], Tensor]) -> HeadRows:
    """Whether rows of the drafter's head are the target's rows of the tokens they stand for, or of their *offsets*.

    The latter is TorchSpec's prune after training (6f21829 tools/convert_to_hf.py:235,309,312), a head of the wrong tokens.

    Args:
        head_RH: rows of the drafter's head.
        draft_ids_R: which draft ids they are.
        d2t_D: the map, as offsets.
        rows: rows of the full head that was pruned (or the target's) [n, H] of n ids.
    """
    offsets = d2t_D[draft_ids_R]
    telling = offsets != offsets + draft_ids_R
    by_id, by_offset = _same(head_RH, rows(draft_ids_R + offsets)), _same(head_RH, rows(offsets.clamp_min(0)))
    if bool(by_id.all()):
        return HeadRows.TARGET_ROWS
    return HeadRows.BY_OFFSET if bool(telling.any()) and bool(by_offset.all()) else HeadRows.INDEPENDENT


def _same(mine_RH: Tensor, theirs_RH: Tensor) -> Tensor:
    """[R] bool: rows equal within the rounding of a dtype of 8 bits of precision."""
    if mine_RH.shape != theirs_RH.shape:
        return torch.zeros(len(mine_RH), dtype=torch.bool)
    error_R = (mine_RH.float() - theirs_RH.float()).norm(dim=-1)
    size_R = theirs_RH.float().norm(dim=-1).clamp_min(1e-30)
    return torch.le(error_R, 2**-7 * size_R)


def _distinct(ids_T: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct ids, and the first place of each."""
    distinct, inverse = torch.unique(ids_T, return_inverse=True)
    first = torch.full((len(distinct),), len(ids_T), dtype=torch.int64)
    first.scatter_reduce_(0, inverse, torch.arange(len(ids_T)), reduce="amin")
    return distinct, first
