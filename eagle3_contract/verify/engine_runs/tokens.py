"""Greedy text in further runs against the plain run's: equal, or parted at a near tie, or parted where the margin was wide.

At the first token that differs both runs had the same tokens before. Noise with the relative size e turns the last state h by a vector of
length e*|h|, and the difference of two logits by about e*|h|*|w_a - w_b| / sqrt(G) for a direction that has nothing to do with the two
head rows. A margin below ``TIE`` times that, or below the rounding of the logits themselves, is a tie.

Legend: G target width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from contract.files.bundle_manifest import FINAL_NORM as FINAL_NORM_TENSOR
from contract.findings import Check, Depth, Json, Where
from contract.numerics.tolerance import ROUNDING, dtype_bound
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.verify.engine_runs import rules
from eagle3_contract.verify.engine_runs.noise import Noise
from eagle3_contract.verify.engine_runs.rows import PLAIN
from eagle3_contract.verify.engine_runs.twins import Told, Twins, runs_of
from eagle3_contract.verify.target_tokens import TargetHead

TIE: Final = 4.0
"""Standard deviations of a random direction that a near tie may be wide."""
NEEDS: Final = "Capture with every boundary recorded and give the target with --target, so that the margin can be computed."


@dataclass(frozen=True, slots=True)
class Margin:
    """By how much the plain run's token led over the other run's, in logits, and how much of that noise can turn. A negative lead: the
    plain run's last state does not even say the plain run's token."""

    lead: float
    tie: float

    @property
    def is_tie(self) -> bool:
        return abs(self.lead) <= self.tie


@dataclass(frozen=True, slots=True)
class Split:
    """The first token that differs: its position, both tokens, and the margin (None where it cannot be computed)."""

    pair: Twins
    position: int
    plain: int
    other: int
    margin: Margin | None

    def __str__(self) -> str:
        where = f"token {self.position} of {self.pair.other.id} is {self.other}, {self.plain} in the plain run"
        if self.margin is None:
            return f"{where}{self.pair.other.about(self.position)}"
        return f"{where} (margin {self.margin.lead:.2g} logits, noise turns {self.margin.tie:.2g}{self.pair.other.about(self.position)})"

    def as_json(self) -> dict[str, Json]:
        margin = None if self.margin is None else {"logits": self.margin.lead, "tie": self.margin.tie}
        return {"request": self.pair.other.id, "position": self.position, "plain": self.plain, "other": self.other, "margin": margin}


def token_checks(noise: Noise, head: TargetHead | None) -> Iterator[Check]:
    """One check per further run."""
    for run, pairs in runs_of(noise.pairs).items():
        name = "of the same name" if run == PLAIN else run
        splits = [s for pair in pairs if (s := _split(pair, noise, head)) is not None]
        evidence: dict[str, Json] = {"run": run, "prompts": len(pairs), "parted": [s.as_json() for s in splits]}
        wide = [s for s in splits if s.margin is not None and not s.margin.is_tie]
        unknown = [s for s in splits if s.margin is None]
        if wide:
            first = wide[0]
            yield rules.TOKENS_DIFFER.failed(
                f"run {name}: greedy text parts from the plain run's where the margin was wide: {first}"
                + (f" (and {len(wide) - 1} more)" if len(wide) > 1 else ""),
                expected=first.plain,
                actual=first.other,
                where=Where(sample=first.pair.other.id, row=first.position),
                evidence=evidence,
            )
        elif unknown:
            yield rules.TOKENS_DIFFER.undecided(
                f"run {name}: greedy text parts from the plain run's, and how near the tie was is not known: {unknown[0]}",
                at=Depth.VERIFY,
                required=False,
                fix=NEEDS,
                where=Where(sample=unknown[0].pair.other.id, row=unknown[0].position),
                evidence=evidence,
            )
        elif splits:
            yield rules.TOKENS_DIFFER.passed(
                f"run {name}: greedy text parts from the plain run's at near ties only, {len(splits)} of {len(pairs)} prompts: {splits[0]}",
                evidence=evidence,
            )
        else:
            tokens = sum(pair.common - pair.other.request.info.prompt_tokens for pair in pairs)
            yield rules.TOKENS_DIFFER.passed(
                f"run {name}: the {tokens} generated tokens of {len(pairs)} prompts are the plain run's", evidence=evidence
            )


def _split(pair: Twins, noise: Noise, head: TargetHead | None) -> Split | None:
    at = pair.common
    if at >= min(len(pair.plain.text), len(pair.other.text)) or at < pair.other.request.info.prompt_tokens:
        return None
    a, b = pair.plain.text[at], pair.other.text[at]
    return Split(pair, at, a, b, _margin(pair.plain, at - 1, a, b, noise, head))


def _margin(plain: Told, row: int, a: int, b: int, noise: Noise, head: TargetHead | None) -> Margin | None:
    """From the last state that the plain run recorded before the token."""
    state_G = None if head is None else _last_state(plain, row, noise.bundle.manifest.layers, head)
    if state_G is None or head is None or max(a, b) >= len(head.head_VG):
        return None
    h_G, w_2G = state_G.double(), head.head_VG[[a, b]].double()
    logit_2 = w_2G @ h_G
    floor = noise.floor(FINAL_NORM_TENSOR)
    relative = max(dtype_bound(noise.dtype, layers=noise.bundle.manifest.layers), 0.0 if floor is None else floor.worst)
    turned = relative * float(h_G.norm()) * float((w_2G[0] - w_2G[1]).norm()) / math.sqrt(len(h_G))
    rounding = ROUNDING[noise.dtype] * float(logit_2.abs().sum())
    return Margin(lead=float(logit_2[0] - logit_2[1]), tie=TIE * turned + rounding)


def _last_state(told: Told, row: int, layers: int, head: TargetHead) -> Tensor | None:
    """[G] the state behind the final norm in a row, recorded or computed from the last boundary."""
    at = row - told.first
    final_TG = told.tensor(FINAL_NORM_TENSOR)
    if final_TG is not None:
        return final_TG[at].float() if 0 <= at < len(final_TG) else None
    last_TG = told.tensor(f"boundary.{layers}")
    if last_TG is None or not 0 <= at < len(last_TG):
        return None
    x_G = last_TG[at].to(torch.float32)
    return rms_norm(x_G[None], head.norm_G.to(torch.float32), head.eps)[0]
