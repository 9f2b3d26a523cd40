"""The tensors that the contract's wiring needs. A size that is unknown stays unknown through all arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.model.wiring import (
    Attention,
    LaterLayerNorm,
    Mla,
    NormBeforeFc,
    Owner,
    Rope,
    Wiring,
)


class UnknownSize(int):
    """A size that nobody stated. Whatever is computed from it is unknown too."""

    def __new__(cls) -> UnknownSize:
        return super().__new__(cls, 0)

    def _unknown(self, _: Any) -> UnknownSize:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = _unknown


UNKNOWN: Final = UnknownSize()
Shape = tuple[int, ...]

_FLAGS: Final = {
    "hidden_norm": True,
    "final_norm": True,
    "fc_applied": True,
    "fc_bias": False,
    "qk_norm": False,
    "qkv_bias": False,
    "o_bias": False,
    "mlp_bias": False,
}
"""Switches that decide whether a tensor exists, with what most drafters have (used only to go on where one is unknown)."""
_SIZES: Final = ("hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim")
_ENUMS: Final = {
    "attention": (Attention, Attention.GQA),
    "later_layer_norm": (LaterLayerNorm, LaterLayerNorm.INPUT_LAYERNORM),
    "embedding": (Owner, Owner.TARGET),
    "lm_head": (Owner, Owner.OWN),
}


@dataclass(frozen=True, slots=True)
class Needed:
    """Shapes by canonical name, and the statements that were unknown and decide whether some tensor exists (name to reason)."""

    shapes: Mapping[str, Shape]
    undecided: Mapping[str, str]
    states: int | None
    layers: int | None


def needed(ctx: CheckContext) -> Needed:
    """What ``eagle3_contract.drafter.shapes`` derives from the contract; unknown sizes are ``UNKNOWN`` in the shapes.

    The embedding and head of the drafter are those of ``wiring.embedding`` and ``wiring.lm_head``; the vocab map is not among them.
    """
    undecided: dict[str, str] = {}

    def known(*path: str, otherwise: Any) -> Any:
        stated = ctx.stated(*path)
        if not stated.known:
            undecided[".".join(path)] = stated.reason or ""
            return otherwise
        return stated.value

    def size(*path: str) -> int:
        stated = ctx.stated(*path)
        return stated.value if stated.known else UNKNOWN

    values: dict[str, Any] = {name: size("wiring", name) for name in _SIZES}
    values |= {name: known("wiring", name, otherwise=usual) for name, usual in _FLAGS.items()}
    values |= {name: kind(known("wiring", name, otherwise=usual)) for name, (kind, usual) in _ENUMS.items()}
    recipe = ctx.value("hidden_states", "boundaries")
    layers = ctx.value("wiring", "layers")
    mla = ctx.contract.wiring.mla
    wiring = Wiring(
        **values,
        target_hidden_size=size("target", "hidden_size"),
        states=len(recipe) if recipe is not None else UNKNOWN,
        layers=layers if layers is not None else 1,
        draft_vocab_size=size("vocab", "draft_size"),
        target_vocab_size=size("vocab", "target_padded_size"),
        rms_norm_eps=1.0,
        hidden_act="",
        rope=Rope(),
        norms_before_fc=tuple(NormBeforeFc(n) for n in known("wiring", "norms_before_fc", otherwise=())),
        mla=None if mla is None else Mla(**{f: getattr(mla, f) for f in _MLA_SIZES}),
    )
    return Needed(tensor_shapes(wiring), undecided, None if recipe is None else len(recipe), layers)


_MLA_SIZES: Final = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def fits(needed_shape: Shape, actual: Shape) -> bool:
    """Whether a stored shape is what is needed; an unknown size fits anything."""
    return len(needed_shape) == len(actual) and all(isinstance(n, UnknownSize) or n == a for n, a in zip(needed_shape, actual, strict=True))


def shape_text(shape: Shape) -> str:
    """``[7168, ?]``: a shape with a question mark for what is unknown."""
    return "[" + ", ".join("?" if isinstance(n, UnknownSize) else str(n) for n in shape) + "]"
