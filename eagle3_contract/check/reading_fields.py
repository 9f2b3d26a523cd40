"""Which field of an engine's reading must equal which statement of the contract, and what it means where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.findings import Rule
from contract.statement import Fact
from eagle3_contract.check.compare import same
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.harmless import (
    Reason,
    long_enough,
    moved_together,
    no_reason,
    nobody_asked,
    same_map,
    same_owner,
    same_stream,
    within_window,
)
from eagle3_contract.check.reading_rules import FIELD_RULES
from eagle3_contract.drafter.names import EMBEDDING, HEAD
from eagle3_contract.readings.reading import EngineReading

Stated = Callable[[CheckContext], Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One field of a reading and the statement of the contract that it must equal.

    Attributes:
        required: an unknown one cannot be kept.
        applies: whether the contract gives the field a meaning; ``used``: whether the engine does.
        harmless: the reason why a difference changes no number, or None.
        doubtful: the reason why a difference is only noticed: files alone do not say whether it counts.
        called: what the contract's side is called, where that is not the statement at ``path`` itself.
    """

    rule: Rule
    field: str
    stated: Stated
    path: tuple[str, ...]
    equal: Callable[[CheckContext, Any, Any], bool] = lambda _, a, b: same(a, b)
    required: bool = True
    applies: Callable[[CheckContext], bool] = lambda _: True
    used: Callable[[EngineReading], bool] = lambda _: True
    harmless: Reason = no_reason
    doubtful: Reason = no_reason
    called: str = ""

    @property
    def name(self) -> str:
        """What messages call the contract's side."""
        return self.called or ".".join(self.path)


def _at(*path: str) -> dict[str, Any]:
    return {"path": path, "stated": lambda ctx: ctx.stated(*path)}


def _count(ctx: CheckContext) -> Fact:
    recipe = ctx.stated("hidden_states", "boundaries")
    return Fact(known=True, value=len(recipe.value)) if recipe.known else recipe


def _scaling(ctx: CheckContext) -> Fact:
    return Fact(known=True, value=dict(ctx.contract.wiring.rope.scaling))


def _same_scaling(_: CheckContext, stated: Any, actual: Any) -> bool:
    given = actual if isinstance(actual, Mapping) else {}
    kept = {k: v for k, v in given.items() if k not in ("rope_theta", "rope_type", "type", "partial_rotary_factor") and v is not None}
    return kept.keys() == stated.keys() and all(same(stated[k], kept[k]) for k in kept)


def _with_fc(reading: EngineReading) -> bool:
    """The number of states that fc was built for means nothing where fc is skipped."""
    return reading.value("fc.applied") is not False


def _trained_dtype(ctx: CheckContext) -> Fact:
    """The dtype of the weights that every state goes through: fc, or the first tensor that is stored."""
    names = [n for n in ("fc.weight", *ctx.contract.tensors) if n in ctx.contract.tensors]
    return ctx.stated("tensors", names[0], "dtype") if names else Fact(known=False, reason="the contract lists no tensor")


def _range_kept(_: CheckContext, stated: Any, actual: Any) -> bool:
    """bfloat16 and float32 have one range; float16 ends at 65504, below the outliers of many residual streams."""
    return bool(actual != "float16" or stated == "float16")


def _causal(_: CheckContext) -> Fact:
    """Every trainer masks later tokens: a contract has no word for anything else."""
    return Fact(known=True, value=True)


def _same_scale(ctx: CheckContext, stated: Any, actual: Any) -> bool:
    """No scale and 1/sqrt(width of a key) are one: head_dim, or both parts of a latent head (times YaRN's temperature: not compared)."""
    latent, width = ctx.contract.wiring.mla, ctx.value("wiring", "head_dim")
    if latent is not None:
        parts = [ctx.value("wiring", "mla", name) for name in ("qk_nope_head_dim", "qk_rope_head_dim")]
        plain = ctx.value("wiring", "rope", "type") == "default"
        width = sum(parts) if plain and all(isinstance(p, int) for p in parts) else None
    if width is None or width <= 0:
        return same(stated, actual)
    natural = width**-0.5
    return same(natural if stated is None else stated, natural if actual is None else actual)


def _deeper(ctx: CheckContext) -> bool:
    return bool(ctx.value("wiring", "layers") != 1)


def _grouped(ctx: CheckContext) -> bool:
    """Latent attention has sizes of its own; head_dim and kv_heads mean nothing to it."""
    return bool(ctx.value("wiring", "attention") != "mla")


def _row(rule: str, field: str, *path: str, **more: Any) -> Compared:
    return Compared(rule=FIELD_RULES[rule], field=field, **{**_at(*path), **more})


def _wiring(rule: str, *fields: tuple[str, str], **more: Any) -> tuple[Compared, ...]:
    return tuple(_row(rule, field, "wiring", name, **more) for field, name in fields)


COMPARED: Final[tuple[Compared, ...]] = (
    _row("boundaries", "hidden_states.boundaries", "hidden_states", "boundaries"),
    _row("point", "hidden_states.point", "hidden_states", "point", required=False, harmless=same_stream),
    _row("fc-applied", "fc.applied", "wiring", "fc_applied"),
    _row("fc-count", "fc.count", "hidden_states", "boundaries", stated=_count, used=_with_fc, called="the number of states"),
    _row("fc-bias", "fc.bias", "wiring", "fc_bias"),
    _row("norms-before-fc", "norms.before_fc", "wiring", "norms_before_fc"),
    _row("norm-before-residual", "wiring.norm_before_residual", "wiring", "norm_before_residual"),
    _row("feedback", "wiring.feedback", "wiring", "feedback"),
    _row("double-norm", "wiring.double_norm", "wiring", "double_norm"),
    _row("later-layer-norm", "wiring.later_layer_norm", "wiring", "later_layer_norm", applies=_deeper),
    _row("final-norm", "wiring.final_norm", "wiring", "final_norm"),
    _row("vocab-present", "vocab.present", "vocab", "present"),
    _row("vocab-map", "vocab.map", "vocab", "map", harmless=same_map),
    _row("draft-size", "vocab.draft_size", "vocab", "draft_size"),
    _row("embedding", "embedding.used", "wiring", "embedding", harmless=same_owner(EMBEDDING)),
    _row("lm-head", "lm_head.used", "wiring", "lm_head", harmless=same_owner(HEAD)),
    _row("rope-theta", "rope.theta", "wiring", "rope", "theta"),
    _row("rope-type", "rope.type", "wiring", "rope", "type"),
    _row("rope-scaling", "rope.scaling", "wiring", "rope", "scaling", equal=_same_scaling, stated=_scaling, required=False),
    _row("rope-scaling", "rope.rotary_dim", "wiring", "rope", "rotary_dim", required=False),
    _row("rope-scaling", "rope.interleaved", "wiring", "rope", "interleaved", required=False),
    _row("table-length", "rope.table_length", "wiring", "rope", "table_length", harmless=long_enough, required=False),
    _row("window", "window", "wiring", "window", harmless=within_window),
    _row("layers", "layers", "wiring", "layers"),
    *_wiring("sizes", *((name, name) for name in ("hidden_size", "heads", "intermediate_size"))),
    *_wiring("sizes", *((name, name) for name in ("kv_heads", "head_dim")), applies=_grouped),
    _row("sizes", "target_hidden_size", "target", "hidden_size"),
    *_wiring("numerics", ("rms_norm_eps",) * 2, ("hidden_act",) * 2, ("logit_scale",) * 2, required=False),
    *_wiring("numerics", ("attention.scale", "attention_scale"), equal=_same_scale, required=False),
    *_wiring(
        "attention",
        ("attention",) * 2,
        ("qk_norm",) * 2,
        ("attention.qkv_bias", "qkv_bias"),
        ("attention.o_bias", "o_bias"),
        required=False,
    ),
    *_wiring(
        "attention", ("mlp_bias",) * 2, ("wiring.hidden_norm", "hidden_norm"), ("wiring.concat_order", "concat_order"), required=False
    ),
    _row("attention", "attention.causal", "wiring", "attention", stated=_causal, required=False, called="causal attention"),
    _row("step-positions", "wiring.step_positions", "alignment", "step_positions", required=False),
    _row("step-positions", "wiring.positions_start", "alignment", "positions_start", required=False, harmless=moved_together),
    _row(
        "dtype",
        "dtype",
        "tensors",
        stated=_trained_dtype,
        equal=_range_kept,
        doubtful=nobody_asked,
        required=False,
        called="the weights' dtype",
    ),
)
