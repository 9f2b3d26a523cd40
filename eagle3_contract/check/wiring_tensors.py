"""The tensors that the wiring of the contract needs: each is there with its shape, and none is there that the wiring does not use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Where
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.needed import UNKNOWN, Needed, fits, needed, shape_text
from eagle3_contract.check.wiring_rules import LAYERS, LISTED, rule_for
from eagle3_contract.drafter.names import D2T, EMBEDDING, T2D, canonical_name

_LAYER: Final = re.compile(r"layers\.(\d+)\.")
_DECIDED_BY: Final = (
    (re.compile(r"input_norm|fc_norm"), "wiring.norms_before_fc"),
    (re.compile(r"hidden_norm"), "wiring.hidden_norm"),
    (re.compile(r"[qk]_norm"), "wiring.qk_norm"),
    (re.compile(r"^norm\.weight"), "wiring.final_norm"),
    (re.compile(r"^fc\.bias"), "wiring.fc_bias"),
    (re.compile(r"^fc\.weight"), "wiring.fc_applied"),
    (re.compile(r"o_proj\.bias"), "wiring.o_bias"),
    (re.compile(r"self_attn.*\.bias"), "wiring.qkv_bias"),
    (re.compile(r"mlp.*\.bias"), "wiring.mlp_bias"),
    (re.compile(r"layers\.[1-9]\d*\..*(input_layernorm|hidden_norm)"), "wiring.later_layer_norm"),
    (re.compile(r"^embed_tokens"), "wiring.embedding"),
    (re.compile(r"^lm_head"), "wiring.lm_head"),
    (re.compile(r"self_attn"), "wiring.attention"),
)


def _open_question(name: str, need: Needed) -> str | None:
    """The unknown statement, with its reason, that decides whether this tensor exists."""
    for pattern, statement in _DECIDED_BY:
        if pattern.search(name) and statement in need.undecided:
            return f"{statement} is unknown: {need.undecided[statement]}"
    return None


def check_wiring_tensors(ctx: CheckContext) -> Iterator[Check]:
    """Existence and shape of every tensor that follows from the wiring, then the layers, then what is stored for nothing."""
    if not ctx.drafter.tensors:
        return
    need = needed(ctx)
    for name, shape in need.shapes.items():
        yield _one(ctx, need, name, shape)
        yield _listed(ctx, need, name, shape)
    yield _layers(ctx, need)
    yield from _unused(ctx, need)


def _fits(name: str, shape: tuple[int, ...], actual: tuple[int, ...], ctx: CheckContext) -> bool:
    if fits(shape, actual):
        return True
    rows = ctx.value("vocab", "target_size")
    return name == EMBEDDING and rows is not None and fits((rows, *shape[1:]), actual)


def _one(ctx: CheckContext, need: Needed, name: str, shape: tuple[int, ...]) -> Check:
    rule, tensor = rule_for(name), ctx.by_name.get(name)
    if tensor is None:
        question = _open_question(name, need)
        where = ctx.place("tensors", name) if name in ctx.contract.tensors else ctx.place("wiring")
        if question is not None:
            return rule.undecided(f"{name} is not stored; {question}", where=where)
        if not ctx.drafter.complete:
            return rule.undecided(f"{name} is not among the tensors that could be read", where=where)
        return rule.failed(
            f"the wiring needs {name} {shape_text(shape)}, the checkpoint does not have it", expected=shape_text(shape), where=where
        )
    where = Where(file=tensor.file, tensor=tensor.name)
    if not _fits(name, shape, tensor.shape, ctx):
        return rule.failed(
            f"{tensor.name} is {list(tensor.shape)}, the wiring of the contract makes it "
            f"{shape_text(shape)}{_width_hint(ctx, name, tensor.shape)}",
            expected=shape_text(shape),
            actual=list(tensor.shape),
            where=where,
        )
    if any(n is UNKNOWN for n in shape):
        return rule.undecided(
            f"{tensor.name} is {list(tensor.shape)}; the contract does not know every size of {shape_text(shape)}", where=where
        )
    return rule.passed(f"{tensor.name} is {shape_text(shape)}, as the wiring makes it", expected=list(shape), actual=list(tensor.shape))


def _width_hint(ctx: CheckContext, name: str, actual: tuple[int, ...]) -> str:
    width = ctx.value("target", "hidden_size")
    if name != "fc.weight" or not width or len(actual) != 2:
        return ""
    count, rest = divmod(actual[1], width)
    recipe = ctx.value("hidden_states", "boundaries") or []
    if rest:
        return f": {actual[1]} is no multiple of the target's width {width}"
    return f": it takes {count} states of width {width}, the recipe has {len(recipe)}"


def _listed(ctx: CheckContext, need: Needed, name: str, shape: tuple[int, ...]) -> Check:
    spec = ctx.contract.tensors.get(name)
    if spec is None:
        question = _open_question(name, need)
        if question is not None:
            return LISTED.undecided(f"tensors has no entry {name}; {question}", where=ctx.place("tensors"))
        return LISTED.failed(
            f"the wiring needs {name} {shape_text(shape)}, tensors has no entry for it",
            expected=shape_text(shape),
            where=ctx.place("tensors"),
        )
    stated = ctx.value("tensors", name, "shape")
    if stated is not None and not _fits(name, shape, tuple(stated), ctx):
        return LISTED.failed(
            f"tensors says {name} is {stated}, the wiring makes it {shape_text(shape)}",
            expected=shape_text(shape),
            actual=stated,
            where=ctx.place("tensors", name, "shape"),
        )
    return LISTED.passed(f"tensors lists {name}")


def _layers(ctx: CheckContext, need: Needed) -> Check:
    found = {int(m[1]) for n in ctx.by_name if (m := _LAYER.match(n))}
    stored = sorted(found)
    if need.layers is None:
        return LAYERS.undecided(
            f"weights of layers {stored}; the contract does not say how many there are", where=ctx.place("wiring", "layers")
        )
    if found == set(range(need.layers)):
        return LAYERS.passed(f"weights of {need.layers} layer{'s' if need.layers > 1 else ''}", expected=need.layers, actual=len(found))
    message = f"the wiring has {need.layers} layers, the checkpoint has weights of layers {stored}"
    where = ctx.place("wiring", "layers")
    if not ctx.drafter.complete and found < set(range(need.layers)):
        return LAYERS.undecided(f"{message}, but not every file could be read", where=where)
    return LAYERS.failed(message, expected=need.layers, actual=stored, where=where)


def _unused(ctx: CheckContext, need: Needed) -> Iterator[Check]:
    """Norms and biases that are stored although the wiring does not apply them."""
    for name, tensor in ctx.by_name.items():
        layer = _LAYER.match(name)
        if name in need.shapes or name in (D2T, T2D) or canonical_name(tensor.name) is None:
            continue
        if layer and need.layers is not None and int(layer[1]) >= need.layers:
            continue  # LAYERS speaks of these
        rule, where = rule_for(name), Where(file=tensor.file, tensor=tensor.name)
        spec = ctx.contract.tensors.get(name)
        used = ctx.value("tensors", name, "used") if spec is not None else None
        question = _open_question(name, need)
        if used in ("not_used", "target", "tied_to_target"):
            yield rule.passed(f"{tensor.name} is stored and the contract says that training did not use it (used: {used})", where=where)
        elif question is not None:
            yield rule.undecided(f"{tensor.name} is stored; {question}", where=where)
        else:
            yield rule.failed(
                f"{tensor.name} is stored, but the wiring of the contract does not use it",
                expected="not stored",
                actual="stored",
                where=where,
            )
