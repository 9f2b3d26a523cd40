"""The vocab map as the engine's logits and proposals show it, and the maps that it may have used instead.

Legend: R rows, W width of the logits shown, DV draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.numerics.statistics import row_errors
from contract.numerics.tolerance import Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.names import D2T
from eagle3_contract.model.vocab import VocabMap

_WORDS: Final = {
    VocabMap.OFFSET: "d2t is read as offsets (token = draft id + d2t)",
    VocabMap.ABSOLUTE: "d2t is read as absolute ids (token = d2t)",
    VocabMap.IDENTITY: "draft ids are taken for tokens as they are",
}


@dataclass(slots=True, eq=False)
class Maps:
    """The contract's map [DV], what else may be made of the file's d2t, and the target vocabulary."""

    targets_D: Tensor
    vocabulary: int
    others: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, drafter: Drafter) -> Maps:
        """Raises like ``Drafter.target_ids``."""
        w = drafter.wiring
        maps = cls(drafter.target_ids.cpu(), w.target_vocab_size)
        identity = torch.arange(w.draft_vocab_size)
        made: dict[VocabMap, Tensor] = {VocabMap.IDENTITY: identity}
        try:
            stored = drafter.weights.integers(D2T)
        except UserError:
            stored = None
        if stored is not None and stored.shape == identity.shape:
            made |= {VocabMap.OFFSET: stored.cpu() + identity, VocabMap.ABSOLUTE: stored.cpu()}
        maps.others = {_WORDS[kind]: ids for kind, ids in made.items() if not torch.equal(ids, maps.targets_D)}
        maps.others["d2t is added twice"] = 2 * maps.targets_D - identity
        maps.others["d2t holds absolute ids and is read as offsets (token = draft id + d2t)"] = maps.targets_D + identity
        return maps

    @property
    def draft_size(self) -> int:
        """DV."""
        return len(self.targets_D)

    def is_draft(self, width: int) -> bool:
        """Whether logits of this width are those of the draft vocabulary; padding may stand behind them."""
        return width < self.vocabulary or self.draft_size == self.vocabulary

    def in_draft_order(self, logits_W: Tensor, targets_D: Tensor | None = None) -> Tensor:
        """The logits [DV] of the draft ids, under the contract's map or another one; -inf where a token is out of range."""
        width = len(logits_W)
        if self.is_draft(width):
            return logits_W[: self.draft_size] if width >= self.draft_size else logits_W
        ids_D = self.targets_D if targets_D is None else targets_D
        there = (ids_D >= 0) & (ids_D < width)
        return logits_W[ids_D.clamp(0, width - 1)].masked_fill(~there, float("-inf"))

    def best(self, logits_W: Tensor, count: int = 1) -> tuple[set[int], set[int]]:
        """Draft ids (or tokens, where tokens are shown) that rank among the first ``count``, ties included; and the tokens they mean."""
        finite = logits_W.nan_to_num(float("-inf"), float("inf"), float("-inf"))
        if self.is_draft(len(logits_W)):
            finite = finite[: self.draft_size]
        least = finite.topk(min(count, len(finite))).values[-1]
        ids = (finite >= least).nonzero().flatten()
        if not self.is_draft(len(logits_W)):
            return set(ids.tolist()), set(ids.tolist())
        return set(ids.tolist()), set(self.targets_D[ids].tolist())

    def ranked(self, logits_W: Tensor, count: int) -> tuple[list[int], list[float]]:
        """The first ``count`` tokens of a row's logits, with their log probabilities."""
        shown = logits_W[: self.draft_size] if self.is_draft(len(logits_W)) else logits_W
        best = shown.log_softmax(-1).topk(min(count, len(shown)))
        ids = self.targets_D[best.indices] if self.is_draft(len(logits_W)) else best.indices
        return [int(i) for i in ids.tolist()], [float(v) for v in best.values.tolist()]

    def explain(self, logits_RW: Tensor, ours_RD: Tensor, tolerance: Tolerance) -> str | None:
        """Which other map gives the logits that are shown, in words; None if none does."""
        if self.is_draft(logits_RW.shape[1]):
            theirs_RD = logits_RW[:, : self.draft_size]
            if theirs_RD.shape == ours_RD.shape and self._rearranged(theirs_RD, ours_RD, tolerance):
                return "are those of our head in another order of the draft ids"
            return None
        for words, ids_D in self.others.items():
            if self._stand_at(logits_RW, ours_RD, ids_D, tolerance):
                return f"stand at other tokens than the contract's map says: {words}"
        finite_RW = logits_RW.isfinite()
        if bool((finite_RW.sum(1) == self.draft_size).all()):
            theirs_RD = torch.stack([z[f] for z, f in zip(logits_RW, finite_RW, strict=True)])
            if self._rearranged(theirs_RD, ours_RD, tolerance):
                alike = all(set(f.nonzero().flatten().tolist()) == set(self.targets_D.tolist()) for f in finite_RW)
                which = (
                    "the contract's tokens in another order of the draft ids" if alike else "other tokens than those of the contract's map"
                )
                return f"stand at {which}"
        return None

    @staticmethod
    def _stand_at(logits_RW: Tensor, ours_RD: Tensor, ids_D: Tensor, tolerance: Tolerance) -> bool:
        """Whether the logits are ours put where another map says. Where that map sends several draft ids to one token, one of them is
        left; which one, the first row tells for all."""
        there_D = (ids_D >= 0) & (ids_D < logits_RW.shape[1])
        ids, ours = ids_D[there_D], ours_RD[:, there_D]
        columns = torch.unique(ids)
        if not torch.equal(logits_RW[0].isfinite().nonzero().flatten(), columns):
            return False
        farthest_first = (logits_RW[0][ids] - ours[0]).abs().argsort(descending=True)
        nearest = dict(zip(ids[farthest_first].tolist(), farthest_first.tolist(), strict=True))
        chosen = torch.tensor([nearest[c] for c in columns.tolist()], dtype=torch.int64)
        return bool((row_errors(logits_RW[:, columns], ours[:, chosen]) <= tolerance.worst).all())

    @staticmethod
    def _rearranged(theirs_RD: Tensor, ours_RD: Tensor, tolerance: Tolerance) -> bool:
        return bool((row_errors(theirs_RD.sort(1).values, ours_RD.sort(1).values) <= tolerance.worst).all())
