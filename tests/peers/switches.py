"""Every switch of a wiring, flipped alone: what a trainer or an engine could do differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.model.wiring import (
    ConcatOrder,
    Feedback,
    NormBeforeFc,
    Owner,
    Rollout,
    Rope,
    StepPositions,
    Wiring,
)

_YARN = Rope(type="yarn", scaling={"factor": 32.0, "original_max_position_embeddings": 2048})
"""What ModelOpt's export writes into config.json although it trained with plain rope."""


@dataclass(frozen=True)
class Switch:
    """``flip`` returns the wiring with one switch flipped, or the same wiring if it has nothing to flip."""

    flip: Callable[[Wiring], Wiring]
    rollout: Rollout = Rollout.TEACHER


def _set(**fields: Any) -> Switch:
    return Switch(lambda w: replace(w, **fields))


def _toggle(name: str) -> Switch:
    return Switch(lambda w: replace(w, **{name: not getattr(w, name)}))


def _without_or_with(norm: NormBeforeFc) -> Switch:
    def flip(w: Wiring) -> Wiring:
        kept = tuple(n for n in w.norms_before_fc if n is not norm)
        return replace(w, norms_before_fc=kept if norm in w.norms_before_fc else (*w.norms_before_fc, norm))

    return Switch(flip)


def _other_feedback(w: Wiring) -> Wiring:
    if not w.final_norm:
        return w  # without a final norm there is one state only
    return replace(w, feedback=Feedback.POST_NORM if w.feedback is Feedback.PRE_NORM else Feedback.PRE_NORM)


def _no_final_norm(w: Wiring) -> Wiring:
    return replace(w, final_norm=not w.final_norm, feedback=Feedback.PRE_NORM)


SWITCHES: dict[str, Switch] = {
    "norm_before_residual": _toggle("norm_before_residual"),
    "double_norm": _toggle("double_norm"),
    "hidden_norm": _toggle("hidden_norm"),
    "final_norm": Switch(_no_final_norm),
    "feedback": Switch(_other_feedback),
    "concat_order": _set(concat_order=ConcatOrder.HIDDEN_FIRST),
    "step_positions": _set(step_positions=StepPositions.CONSTANT),
    "input_norm": _without_or_with(NormBeforeFc.INPUT_NORM),
    "fc_norm": _without_or_with(NormBeforeFc.FC_NORM),
    "qk_norm": _toggle("qk_norm"),
    "qkv_bias": _toggle("qkv_bias"),
    "o_bias": _toggle("o_bias"),
    "mlp_bias": _toggle("mlp_bias"),
    "fc_bias": _toggle("fc_bias"),
    "window": _set(window=4),
    "rope_yarn": _set(rope=_YARN),
    "rope_linear": _set(rope=Rope(type="linear", scaling={"factor": 4.0})),
    "rope_theta": _set(rope=Rope(theta=1_000_000.0)),
    "rope_interleaved": _set(rope=Rope(interleaved=True)),
    "rotary_dim": _set(rope=Rope(rotary_dim=8)),
    "attention_scale": _set(attention_scale=1.0),
    "logit_scale": _set(logit_scale=0.5),
    "hidden_act": _set(hidden_act="gelu"),
    "token_shift": _set(token_shift=0),
    "lm_head": _set(lm_head=Owner.TIED_TO_TARGET),
    "rollout": Switch(lambda w: w, Rollout.OWN_ARGMAX),
}


def invented(wiring: Wiring, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The checkpoint with what a flipped wiring needs and the file lacks: norm weights around one, small biases.

    Not ones: where only ``hidden_norm(h)`` is used (norm_before_residual), an unweighted norm over the concatenation before fc is a scale
    that hidden_norm takes out again.
    """
    have = {name.replace("midlayer.", "layers.0.") for name in stored}
    generator = torch.Generator().manual_seed(5)
    extra = {
        name: 1.0 + torch.rand(shape, generator=generator) * 0.5 if "norm" in name else torch.randn(shape, generator=generator) * 0.3
        for name, shape in tensor_shapes(wiring).items()
        if name not in have
    }
    return stored | extra
