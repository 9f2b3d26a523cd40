"""What the target says after each token of a sample: from the state that training used as its last one, or as it was recorded.

Legend: T tokens, G target hidden size, V target vocabulary, DV draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from contract.errors import ToolError, UserError
from contract.findings import Json
from contract.statement import fact
from eagle3_contract.drafter.names import TARGET_EMBEDDING_NAMES, TARGET_HEAD_NAMES
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.spec import TargetState
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify.best import Best
from eagle3_contract.verify.metrics import TargetTokens

ARGMAX_EXTRA: Final = "target_argmax"
"""Samples may carry the target's argmax [T] under this name (the speculators-like dumps of some tools, our neutral format)."""
FINAL_NORM_NAMES: Final = ("model.norm.weight", "language_model.model.norm.weight", "model.language_model.norm.weight", "norm.weight")
RMS_FAMILIES: Final = (
    "llama", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mistral", "mixtral", "deepseek_v2", "deepseek_v3", "kimi_k2",
    "kimi_k25", "gpt_oss", "minimax", "minimax_m2", "glm4_moe", "smollm3",
)  # fmt: skip
"""Families whose final norm is x * rsqrt(mean(x^2) + eps) * weight and whose head is linear without a scale or a cap."""
NO_TARGET: Final = (
    "neither the target's head nor its recorded argmax is at hand",
    "Give the target with --target, or samples that record target_argmax.",
)
"""Why the target's tokens are not known, and what to do about it."""
ROWS: Final = 256
"""Rows of logits held at a time; 256 x 163840 floats are 168 MB."""
NOT_ASKED: Final = -1
"""In place of a token that nobody asked for; no token and no draft id is equal to it."""


@dataclass(frozen=True, slots=True)
class TargetHead:
    """The target's final norm [G] and head [V, G], for logits of stored last states."""

    norm_G: Tensor
    head_VG: Tensor
    eps: float

    @classmethod
    def load(cls, source: WeightSource, config: Mapping[str, Json]) -> TargetHead:
        """Read norm and head of a target.

        Raises:
            ToolError: ``target.head`` if the family's head is not known to be a plain one, or a tensor is missing.
        """
        inner = config.get("text_config")
        text: Mapping[str, Json] = inner if isinstance(inner, Mapping) else config
        family = str(text.get("model_type", config.get("model_type")))
        if family not in RMS_FAMILIES:
            raise _no_head(f"the head of the family {family!r} is not known to be a plain one (known: {', '.join(RMS_FAMILIES)})")
        eps = text.get("rms_norm_eps")
        if not isinstance(eps, float):
            raise _no_head("the target's config.json has no rms_norm_eps")
        names = source.names()
        norm = next((n for n in FINAL_NORM_NAMES if n in names), None)
        head = next((n for n in (*TARGET_HEAD_NAMES, *TARGET_EMBEDDING_NAMES) if n in names), None)
        if norm is None or head is None:
            raise _no_head(f"{source.label} has no final norm or no head")
        return cls(source.tensor(norm), source.tensor(head), eps)

    def tokens(self, last_TG: Tensor, targets_D: Tensor, *, norm: bool, wanted_T: Tensor | None = None, draft: bool = True) -> TargetTokens:
        """Argmax over the whole and over the draft vocabulary, computed in the head's dtype like the target itself does.

        Args:
            last_TG: the state that training used as the target's last one.
            targets_D: [DV] target id of each draft id.
            norm: whether to apply the final norm first.
            wanted_T: [T] bool, the rows that anyone will look at; the others are ``NOT_ASKED``. None: all.
            draft: whether the argmax over the draft vocabulary is asked for, too.
        """
        rows_L = torch.arange(len(last_TG)) if wanted_T is None else wanted_T.nonzero()[:, 0]
        full_T, draft_T = (torch.full((len(last_TG),), NOT_ASKED, dtype=torch.int64) for _ in range(2))
        for at_L in torch.split(rows_L, ROWS):
            x_LG = last_TG[at_L].to(self.head_VG.dtype)
            x_LG = rms_norm(x_LG, self.norm_G.to(x_LG.dtype), self.eps) if norm else x_LG
            logits_LV = F.linear(x_LG, self.head_VG).float()
            full_T[at_L] = Best.of(logits_LV).ids
            if draft:
                draft_T[at_L] = Best.of(logits_LV.index_select(1, targets_D)).ids
        return TargetTokens(full_T, draft_T if draft else None)


def of_sample(
    sample: TrainingSample,
    head: TargetHead | None,
    stated: TargetState,
    targets_D: Tensor,
    *,
    wanted_T: Tensor | None = None,
    draft: bool = True,
) -> TargetTokens | None:
    """The target's tokens in the trainer's own way: from the sample's last state through the head, else as the sample records them.

    Args:
        stated: which state training used as the last one, and what was done to it.
        targets_D: [DV] target id of each draft id.
        wanted_T, draft: as ``TargetHead.tokens``.
    """
    normed, by_trainer = fact(stated.normed), fact(stated.norm_applied_by_trainer)
    if head is not None and sample.last_TG is not None and normed.known and by_trainer.known:
        norm = not normed.value and bool(by_trainer.value)
        return head.tokens(sample.last_TG, targets_D, norm=norm, wanted_T=wanted_T, draft=draft)
    return recorded(sample.extras.get(ARGMAX_EXTRA), sample.tokens)


def recorded(argmax_T: Tensor | None, tokens: int) -> TargetTokens | None:
    """Target tokens from a recorded argmax [T] int64, or None if there is none of that length."""
    if argmax_T is None or argmax_T.shape != (tokens,) or argmax_T.is_floating_point():
        return None
    return TargetTokens(argmax_T.to(torch.int64))


def _no_head(message: str) -> UserError:
    return ToolError(
        f"the target's logits cannot be computed: {message}",
        rule="target.head",
        fix="Give samples that record target_argmax, or a capture that records the target's greedy tokens.",
    )
