"""Which field of an engine's reading must equal which statement of the contract, and what it means where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.findings import Rule, Severity
from contract.statement import Fact
from eagle3_contract.check.compare import same
from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.names import EMBEDDING, HEAD

_REMEDY: Final = (
    "Write the key that this engine reads with the value of training (`contract export` does it), or serve with an engine that reads it so."
)


def reading_rule(name: str, title: str, dimension: str, why: str, remedy: str = _REMEDY) -> Rule:
    """A rule ``reading.<name>``."""
    return Rule(id=f"reading.{name}", title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=remedy)


Stated = Callable[[CheckContext], Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One field of a reading and the statement of the contract that it must equal. ``required``: an unknown one cannot be kept."""

    rule: Rule
    field: str
    stated: Stated
    path: tuple[str, ...]
    equal: Callable[[CheckContext, Any, Any], bool] = lambda _, a, b: same(a, b)
    required: bool = True
    applies: Callable[[CheckContext], bool] = lambda _: True


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


def _same_owner(name: str) -> Callable[[CheckContext, Any, Any], bool]:
    """Own and target's are the same where the contract says that the own tensor is a copy of the target's."""

    def equal(ctx: CheckContext, stated: Any, actual: Any) -> bool:
        spec = ctx.contract.tensors.get(name)
        copy = spec is not None and ctx.value("tensors", name, "content") == "target_copy"
        return same(stated, actual) or (copy and {stated, actual} == {"own", "target"})

    return equal


def _same_map(ctx: CheckContext, stated: Any, actual: Any) -> bool:
    zeros = ctx.drafter.d2t is not None and not ctx.drafter.d2t.any()
    return same(stated, actual) or (zeros and {stated, actual} == {"offset", "identity"})


def _long_enough(_: CheckContext, stated: Any, actual: Any) -> bool:
    return isinstance(actual, int) and actual >= stated


def _deeper(ctx: CheckContext) -> bool:
    return bool(ctx.value("wiring", "layers") != 1)


_TABLE: Final[tuple[tuple[str, str, str, str], ...]] = (
    # name, title, dimension, why
    (
        "boundaries",
        "The engine feeds the states of the recipe, in its order",
        "recipe",
        "One key names boundary k on one reader and k+1 on the next; a third does not read it and takes 2, N//2, N-3 instead. "
        "Off by one cost 10% against 45% at position 0 (vllm#43671); another recipe two thirds of all accepted drafts.",
    ),
    (
        "fc-applied",
        "The engine runs fc exactly if training did",
        "wiring",
        "SGLang skips fc and its norms where the fed width equals the drafter's (facts X10).",
    ),
    (
        "fc-count",
        "The engine builds fc for as many states as the recipe has",
        "recipe",
        "The count comes from other keys than the ids: num_aux_hidden_states, nested ids, else 3 (facts X6).",
    ),
    (
        "fc-bias",
        "The engine's fc has a bias exactly if training's had",
        "wiring",
        "Key `bias` at the top level; without the tensor it is random.",
    ),
    (
        "norms-before-fc",
        "The engine norms the states before fc as training did",
        "wiring",
        "vLLM and SGLang drop input_norm without its flag; the MLA drafter of SGLang does not know that flag (facts X12).",
    ),
    (
        "norm-before-residual",
        "The engine's first residual is that of training",
        "wiring",
        "Only vLLM has this switch, with two defaults; SGLang adds the raw state always (facts X11).",
    ),
    (
        "feedback",
        "The engine hands the state of training to the next step",
        "wiring",
        "Step 0 is equal either way, so that a one-step test shows nothing.",
    ),
    (
        "double-norm",
        "The engine norms the hidden stream as often as training did",
        "wiring",
        "ModelOpt >= 0.41 trains hidden_norm(input_layernorm(h)); no engine computes it (facts T5: off by 0.07 to 0.17).",
    ),
    (
        "later-layer-norm",
        "Layers after the first enter through the norm of training",
        "wiring",
        "vLLM loads input_layernorm, SGLang hidden_norm; a file with only one of them runs with ones in the other.",
    ),
    ("final-norm", "The engine norms before the head exactly if training did", "wiring", "Engines always norm before the head (facts T4)."),
    ("vocab-present", "The engine finds the vocab map that training had", "vocab", "A missing map is the identity, silently."),
    ("vocab-map", "The engine reads the vocab map as training wrote it", "vocab", "Every engine adds the draft id to d2t."),
    (
        "draft-size",
        "The engine's head has the draft vocabulary of training",
        "vocab",
        "Without the key it is the whole vocabulary, or an error.",
    ),
    (
        "embedding",
        "The engine looks tokens up in the table that training used",
        "weights",
        "SGLang always takes the target's, vLLM the drafter's where it differs from the target's (facts X8).",
    ),
    (
        "lm-head",
        "The engine uses the head that training used",
        "weights",
        "Null or missing sizes, ties and missing tensors make engines take the target's (sglang#27908, facts X9).",
    ),
    ("rope-theta", "The engine's rope base is that of training", "rope", "It is 10000 without the key, silently."),
    (
        "rope-type",
        "The engine's rotary scheme is that of training",
        "rope",
        "ModelOpt's export adds YaRN to drafters trained without (facts T6).",
    ),
    ("rope-scaling", "The engine scales the rotary frequencies as training did", "rope", "A wrong phase grows with the position."),
    ("table-length", "The engine's rope table is as long as training's", "rope", "Positions beyond it were not trained, or crash."),
    (
        "window",
        "The engine attends to the window of training",
        "rope",
        "SGLang 0.5.23 ignores the drafter's sliding_window; speculators trains with 2048 by default (facts T16).",
    ),
    ("layers", "The engine runs the layers of training", "shapes", "More layers than weights run on uninitialised memory."),
    (
        "sizes",
        "The engine takes the drafter's sizes to be those of training",
        "shapes",
        "Weights are cut or padded to these sizes, silently.",
    ),
    (
        "numerics",
        "The engine computes with the constants of training",
        "wiring",
        "Epsilon, activation and scales come from keys or defaults.",
    ),
    (
        "attention",
        "The engine builds the attention that training had",
        "wiring",
        "SGLang 0.5.23 has no q/k norms and no q, k, v biases in its Llama drafter and drops such tensors silently.",
    ),
)
_RULES: Final = {name: reading_rule(name, title, dimension, why) for name, title, dimension, why in _TABLE}


def _row(rule: str, field: str, *path: str, **more: Any) -> Compared:
    return Compared(rule=_RULES[rule], field=field, **{**_at(*path), **more})


def _wiring(rule: str, *fields: tuple[str, str], **more: Any) -> tuple[Compared, ...]:
    return tuple(_row(rule, field, "wiring", name, **more) for field, name in fields)


COMPARED: Final[tuple[Compared, ...]] = (
    _row("boundaries", "hidden_states.boundaries", "hidden_states", "boundaries"),
    _row("fc-applied", "fc.applied", "wiring", "fc_applied"),
    _row("fc-count", "fc.count", "hidden_states", "boundaries", stated=_count),
    _row("fc-bias", "fc.bias", "wiring", "fc_bias"),
    _row("norms-before-fc", "norms.before_fc", "wiring", "norms_before_fc"),
    _row("norm-before-residual", "wiring.norm_before_residual", "wiring", "norm_before_residual"),
    _row("feedback", "wiring.feedback", "wiring", "feedback"),
    _row("double-norm", "wiring.double_norm", "wiring", "double_norm"),
    _row("later-layer-norm", "wiring.later_layer_norm", "wiring", "later_layer_norm", applies=_deeper),
    _row("final-norm", "wiring.final_norm", "wiring", "final_norm"),
    _row("vocab-present", "vocab.present", "vocab", "present"),
    _row("vocab-map", "vocab.map", "vocab", "map", equal=_same_map),
    _row("draft-size", "vocab.draft_size", "vocab", "draft_size"),
    _row("embedding", "embedding.used", "wiring", "embedding", equal=_same_owner(EMBEDDING)),
    _row("lm-head", "lm_head.used", "wiring", "lm_head", equal=_same_owner(HEAD)),
    _row("rope-theta", "rope.theta", "wiring", "rope", "theta"),
    _row("rope-type", "rope.type", "wiring", "rope", "type"),
    _row("rope-scaling", "rope.scaling", "wiring", "rope", "scaling", equal=_same_scaling, stated=_scaling, required=False),
    _row("rope-scaling", "rope.rotary_dim", "wiring", "rope", "rotary_dim", required=False),
    _row("rope-scaling", "rope.interleaved", "wiring", "rope", "interleaved", required=False),
    _row("table-length", "rope.table_length", "wiring", "rope", "table_length", equal=_long_enough, required=False),
    _row("window", "window", "wiring", "window"),
    _row("layers", "layers", "wiring", "layers"),
    *_wiring("sizes", *((name, name) for name in ("hidden_size", "heads", "kv_heads", "head_dim", "intermediate_size"))),
    _row("sizes", "target_hidden_size", "target", "hidden_size"),
    *_wiring(
        "numerics", ("rms_norm_eps",) * 2, ("hidden_act",) * 2, ("logit_scale",) * 2, ("attention.scale", "attention_scale"), required=False
    ),
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
    _row("attention", "wiring.step_positions", "alignment", "step_positions", required=False),
)
