"""Other wirings that an engine may have: one switch at a time, each norm as if it had not been loaded. They are tried, not believed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from eagle3_contract.drafter.names import EMBEDDING, HEAD, TARGET_EMBEDDING_NAMES, name_table
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.wiring import ConcatOrder, Feedback, LaterLayerNorm, Owner, Rope, Wiring
from eagle3_contract.verify.engine_drafter.overrides import Overridden, Scaled

THETAS: Final = (1e4, 1.5e5, 2.5e5, 5e5, 1e6, 5e6, 8e6, 1e7)
"""Bases in use: the default of every engine, gpt-oss, Phi, Llama 3, Qwen, and their long versions."""
EPSILONS: Final = (1e-5, 1e-6)


@dataclass(frozen=True, slots=True)
class Variant:
    """A wiring to try.

    Attributes:
        name: what differs from the contract, in words.
        wiring: all of it.
        source: the drafter's weights, where they are not the file's.
        target: the target's, likewise.
        because: which key or default of which engine makes it so, with its place in the engine's source.
    """

    name: str
    wiring: Wiring
    source: WeightSource | None = None
    target: WeightSource | None = None
    because: str = ""
    changed: frozenset[str] = field(default_factory=frozenset)


def in_words(base: Wiring, other: Wiring, names: list[str]) -> str:
    """``norm_before_residual true instead of false``."""
    return ", ".join(f"{n} {_value(getattr(other, n))} instead of {_value(getattr(base, n))}" for n in names)


def _value(value: Any) -> str:
    if isinstance(value, Rope):
        more = f" {dict(value.scaling)}" if value.scaling else ""
        return f"{value.type}{' interleaved' if value.interleaved else ''} with theta {value.theta:g}{more}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def flips(base: Wiring, source: WeightSource, target: WeightSource | None, ropes: tuple[Rope, ...] = ()) -> Iterator[Variant]:
    """One switch at a time, as far as the weights are there for it; then each norm and bias, and the embedding, as if it had not been
    loaded, or were scaled as Gemma scales its own."""
    stored = name_table(source.names()).stored
    for change in _switches(base, stored, ropes):
        wiring = replace(base, **change)
        names = [n for n in change if getattr(base, n) != getattr(wiring, n)]
        yield Variant(in_words(base, wiring, names), wiring, changed=frozenset(names))
    for name, file_name in stored.items():
        bias = name.endswith(".bias")
        if name.startswith(("layers.", "norm.")) and (bias or name.endswith("norm.weight")):
            made = torch.zeros if bias else torch.ones
            words = f"{'zeros' if bias else 'ones'} in place of {name}"
            yield Variant(words, base, Overridden(source, {file_name: made(source.shape(file_name))}), changed=frozenset({name}))
    for factor, words in ((0.0, "zeros in place of the embedding"), (math.sqrt(base.hidden_size), "the embedding times sqrt(hidden_size)")):
        if base.embedding is Owner.OWN and EMBEDDING in stored:
            yield Variant(words, base, Scaled(source, [stored[EMBEDDING]], factor), changed=frozenset({"embedding"}))
        elif base.embedding is Owner.TARGET and target is not None:
            scaled = Scaled(target, TARGET_EMBEDDING_NAMES, factor)
            yield Variant(words, base, target=scaled, changed=frozenset({"embedding"}))


def _switches(base: Wiring, stored: Collection[str], ropes: tuple[Rope, ...]) -> Iterator[dict[str, Any]]:
    yield {"norm_before_residual": not base.norm_before_residual}
    first = base.concat_order is ConcatOrder.EMBEDDING_FIRST
    yield {"concat_order": ConcatOrder.HIDDEN_FIRST if first else ConcatOrder.EMBEDDING_FIRST}
    yield {"double_norm": not base.double_norm}
    if base.hidden_norm or "layers.0.hidden_norm.weight" in stored:
        yield {"hidden_norm": not base.hidden_norm}
    if base.final_norm or "norm.weight" in stored:
        yield {"final_norm": not base.final_norm, "feedback": Feedback.PRE_NORM}
    if base.final_norm:
        yield {"feedback": Feedback.PRE_NORM if base.feedback is Feedback.POST_NORM else Feedback.POST_NORM}
    yield from ({"rope": r} for r in _ropes(base.rope, ropes))
    if base.window is not None:
        yield {"window": None}
    yield from ({"rms_norm_eps": e} for e in EPSILONS if e != base.rms_norm_eps)
    other = Owner.TARGET if base.embedding is Owner.OWN else Owner.OWN
    if other is Owner.TARGET or EMBEDDING in stored:
        yield {"embedding": other}
    if base.qk_norm or "layers.0.self_attn.q_norm.weight" in stored:
        yield {"qk_norm": not base.qk_norm}
    yield from ({name: False} for name in ("qkv_bias", "o_bias", "mlp_bias") if getattr(base, name))
    if base.attention_scale is not None:
        yield {"attention_scale": None}
    yield from ({"hidden_act": a} for a in ("silu", "gelu", "gelu_pytorch_tanh", "relu") if a != base.hidden_act)
    if base.layers > 1:
        yield from ({"later_layer_norm": n} for n in LaterLayerNorm if n is not base.later_layer_norm)


def _ropes(base: Rope, more: tuple[Rope, ...]) -> Iterator[Rope]:
    seen = [base]
    plain = replace(base, type="default", scaling={})
    for rope in (*more, plain, replace(base, interleaved=not base.interleaved), *(replace(base, theta=t) for t in THETAS)):
        if rope not in seen:
            seen.append(rope)
            yield rope


HEADS: Final = {
    Owner.OWN: "the drafter's own head",
    Owner.TARGET: "the first rows of the target's head",
    Owner.TIED_TO_OWN: "the first rows of the drafter's embedding",
    Owner.TIED_TO_TARGET: "the first rows of the target's embedding",
}


def other_heads(base: Wiring) -> Iterator[Variant]:
    """Every other head that may be taken."""
    for owner, words in HEADS.items():
        if owner is not base.lm_head:
            yield Variant(words, replace(base, lm_head=owner), changed=frozenset({"lm_head"}))


def mendings(base: Wiring, source: WeightSource) -> Iterator[Variant]:
    """What an engine may run where the files lack tensors that the contract's wiring uses: ones for norms, another's head or embedding."""
    stored = name_table(source.names()).stored
    lacking = [name for name in tensor_shapes(base) if name not in stored]
    norms = {name: torch.ones(tensor_shapes(base)[name]) for name in lacking if name.endswith("norm.weight")}
    filled = Overridden(source, norms) if norms else None
    words = f"ones in place of {', '.join(norms)}" if norms else ""
    wirings = [("", base)]
    if HEAD in lacking:
        wirings = [(v.name, v.wiring) for v in other_heads(base)]
    if EMBEDDING in lacking:
        wirings = [(f"{w}{' and ' if w else ''}the target's embedding", replace(x, embedding=Owner.TARGET)) for w, x in wirings]
    for more, wiring in wirings:
        name = " and ".join(filter(None, (words, more)))
        if name:
            yield Variant(name, wiring, filled, changed=frozenset(lacking))
