"""The recipe: which states, and whether config.json names the same ones under some convention of the field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contract.findings import Check, Json, Rule, Severity
from eagle3_contract.check.compare import said
from eagle3_contract.check.config_view import Setting
from eagle3_contract.check.context import CheckContext
from eagle3_contract.model.states import FINAL_NORM, State, default_boundaries, recipe_text

_E, _D = Severity.ERROR, "recipe"
IDS_KEY: Final = "eagle_aux_hidden_state_layer_ids"
UNREAD_KEYS: Final = ("aux_hidden_states_layer_ids", "aux_hidden_state_layer_ids", "layer_ids", "target_layer_ids")
"""Keys under which ids are written that SGLang 0.5.23 and vLLM 0.32.0's V1 runner do not read for an EAGLE-3 drafter."""

KNOWN: Final = Rule(
    id="recipe.known",
    title="The contract says which states training fed, in order",
    severity=_E,
    dimension=_D,
    why="The recipe is the first cause of 23 of 150 reports, 15 of them silent; nothing in the weights tells it.",
    remedy="State hidden_states.boundaries: which states were concatenated, in which order.",
)
IN_RANGE: Final = Rule(
    id="recipe.in-range",
    title="Every boundary of the recipe exists in the target",
    severity=_E,
    dimension=_D,
    why="Boundaries run from 0 (embedding) to N (all layers). An engine that is asked for one beyond never captures it and fails at the "
    "first request, or runs with a state fewer (sglang#32226).",
    remedy="Translate the trainer's ids into boundaries: output of layer k is boundary k+1.",
)
DISTINCT: Final = Rule(
    id="recipe.distinct",
    title="No state is in the recipe twice",
    severity=_E,
    dimension=_D,
    why="Shallow targets make default ids coincide (Automodel#2256: [1,1,1]); engines collapse duplicates, and fc is one state short.",
    remedy="Check the recipe against the trainer's ids.",
)
IDS_VALID: Final = Rule(
    id="recipe.config-ids-valid",
    title="Layer ids in config.json are whole numbers, ascending, without duplicates",
    severity=_E,
    dimension="keys",
    why="vLLM 0.32.0 sorts them and drops duplicates and out-of-range ones silently; a string or dict gives the defaults or crashes at "
    "the first request; SGLang captures in ascending order whatever the list says (facts T15, observed on both).",
    remedy="Write a plain ascending list of whole numbers.",
)
CONFIG_IDS: Final = Rule(
    id="recipe.config-ids",
    title="The layer ids of config.json name the states of the recipe under some convention",
    severity=_E,
    dimension=_D,
    why="Id k means boundary k (vLLM, speculators, SGLang on DeepSeek types) or boundary k+1 (SGLang on most targets, SpecForge, "
    "ModelOpt, TorchSpec, AngelSlim). Ids that give the recipe under neither are wrong for every engine.",
    remedy="Write eagle_config.eagle_aux_hidden_state_layer_ids (and the top-level key) in the convention of the serving engine.",
)
UNNAMED: Final = Rule(
    id="recipe.config-names-states",
    title="config.json names the states, or the engines' default is the recipe",
    severity=Severity.WARNING,
    dimension=_D,
    why="52 of 57 published templates name no layer ids, and engines then take boundaries 2, N//2, N-3 without a word. That is no "
    "contradiction inside the files, so it warns here; `contract check --engine` and a capture say what a given engine really feeds. "
    "nvidia/Llama-3.3-70B-Instruct-Eagle3 has no ids: acceptance 1.036 against 2.77 (vllm#50170).",
    remedy="Write eagle_config.eagle_aux_hidden_state_layer_ids (and the top-level key) in the convention of the serving engine.",
    depth=None,
)
USE_AUX: Final = Rule(
    id="recipe.use-aux-hidden-state",
    title="use_aux_hidden_state says whether captured states or the final one were fed",
    severity=_E,
    dimension=_D,
    why="false makes engines feed the target's last, normed state alone (observed on both); nvidia/gpt-oss-120b-Eagle3-v2 says false, "
    "and a runner that ignored it lost acceptance (vllm#40551).",
    remedy="Set eagle_config.use_aux_hidden_state to what training did.",
)
RULES: Final = (KNOWN, IN_RANGE, DISTINCT, IDS_VALID, CONFIG_IDS, UNNAMED, USE_AUX)


def check_recipe(ctx: CheckContext) -> Iterator[Check]:
    """The recipe by itself, then against config.json."""
    stated, where = ctx.stated("hidden_states", "boundaries"), ctx.place("hidden_states", "boundaries")
    if not stated.known:
        yield KNOWN.undecided(f"the recipe is unknown: {stated.reason}", where=where)
    elif not stated.value:
        yield KNOWN.failed("the recipe is empty", where=where)
    else:
        yield KNOWN.passed(f"training fed {recipe_text(stated.value)}", expected=stated.value)
        yield from _by_itself(ctx, stated.value)
    if ctx.drafter.config is not None:
        yield from _config(ctx, stated.value if stated.known else None)


def _by_itself(ctx: CheckContext, recipe: Sequence[State]) -> Iterator[Check]:
    layers, where = ctx.value("target", "layers"), ctx.place("hidden_states", "boundaries")
    beyond = [b for b in recipe if layers is not None and b != FINAL_NORM and isinstance(b, int) and b > layers]
    if layers is None:
        yield IN_RANGE.undecided("the contract does not say how many layers the target has", where=ctx.place("target", "layers"))
    elif beyond:
        yield IN_RANGE.failed(
            f"the target has boundaries 0 to {layers}; the recipe names {said(beyond)}", expected=layers, actual=recipe, where=where
        )
    else:
        yield IN_RANGE.passed(f"every state of {recipe_text(recipe)} exists in a target of {layers} layers")
    twice = sorted({str(b) for b in recipe if list(recipe).count(b) > 1})
    if twice:
        yield DISTINCT.failed(f"the recipe {recipe_text(recipe)} has {', '.join(twice)} twice", actual=recipe, where=where)
    else:
        yield DISTINCT.passed(f"{len(recipe)} different states")


def config_ids(ctx: CheckContext) -> tuple[list[Setting], list[Setting]]:
    """Layer ids under the key that engines read, and under other keys."""
    return (
        [s for s in ctx.config.eagle(IDS_KEY) if s.value not in (None, [])],
        [s for s in ctx.config.eagle(*UNREAD_KEYS) if s.value not in (None, [])],
    )


def _config(ctx: CheckContext, recipe: Sequence[State] | None) -> Iterator[Check]:
    read, unread = config_ids(ctx)
    valid = True
    for setting in (*read, *unread):
        problem = _invalid(setting.value)
        valid = valid and problem is None
        if problem is None:
            yield IDS_VALID.passed(f"{setting.key} is {said(setting.value)}")
        else:
            yield IDS_VALID.failed(
                f"{setting.key} {problem}: {said(setting.value)}", actual=setting.value, where=ctx.config_place(setting.key)
            )
    yield from _use_aux(ctx, recipe)
    if recipe is None:
        yield CONFIG_IDS.undecided("the contract does not say which states training fed", where=ctx.place("hidden_states", "boundaries"))
    elif list(recipe) == [FINAL_NORM]:
        yield CONFIG_IDS.skipped("only the final state is fed; layer ids do not matter")
    elif not read:
        yield _defaults(ctx, recipe, unread)
    elif valid:
        for setting in read:
            yield _named(ctx, recipe, setting)


def _invalid(ids: Json) -> str | None:
    if not isinstance(ids, list):
        return "is no list"
    if any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        return "has entries that are no whole numbers"
    if len(set(ids)) < len(ids):
        return "has duplicates"
    return None if ids == sorted(ids) else "is not ascending (engines concatenate in ascending order)"


def _defaults(ctx: CheckContext, recipe: Sequence[State], unread: Sequence[Setting]) -> Check:
    layers = ctx.value("target", "layers")
    if layers is None:
        return UNNAMED.undecided("config.json has no layer ids, and the contract does not say how many layers the target has")
    default = default_boundaries(layers)
    elsewhere = f" ({unread[0].key} {said(unread[0].value)} is a key that SGLang 0.5.23 and vLLM 0.32.0 do not read)" if unread else ""
    if list(recipe) == list(default):
        return UNNAMED.passed(
            f"config.json has no layer ids that engines read{elsewhere}; their default for {layers} layers is {recipe_text(default)}, "
            "the recipe",
            expected=list(recipe),
            actual=list(default),
        )
    return UNNAMED.failed(
        f"config.json has no layer ids that engines read{elsewhere}: without a flag they feed {recipe_text(default)}, training fed "
        f"{recipe_text(recipe)}",
        expected=list(recipe),
        actual=list(default),
        where=ctx.config_place(unread[0].key if unread else IDS_KEY),
    )


def _named(ctx: CheckContext, recipe: Sequence[State], setting: Setting) -> Check:
    ids: list[int] = setting.value
    after = [i + 1 for i in ids]
    if list(recipe) == ids:
        other = " SGLang on Llama, Qwen and most other targets reads them one later." if ids[0] != 1 else " SGLang reads them one later."
        return CONFIG_IDS.passed(
            f"{setting.key} {said(ids)} names the recipe where id k is boundary k: vLLM on every target, SGLang on DeepSeek types "
            "(first id not 1)." + other,
            expected=list(recipe),
            actual=ids,
        )
    if list(recipe) == after:
        return CONFIG_IDS.passed(
            f"{setting.key} {said(ids)} names the recipe {recipe_text(recipe)} where id k is the output of layer k: SGLang on most "
            "targets. "
            "vLLM reads them one layer earlier.",
            expected=list(recipe),
            actual=after,
        )
    return CONFIG_IDS.failed(
        f"{setting.key} {said(ids)} means {recipe_text(ids)} or, as outputs of layers, {recipe_text(after)}; training fed "
        f"{recipe_text(recipe)}",
        expected=list(recipe),
        actual=ids,
        where=ctx.config_place(setting.key),
        evidence={"readings": {"id k is boundary k": ids, "id k is boundary k+1": after}},
    )


def _use_aux(ctx: CheckContext, recipe: Sequence[State] | None) -> Iterator[Check]:
    found = ctx.config.eagle("use_aux_hidden_state")
    value: Json = found[0].value if found else True
    if recipe is None:
        yield USE_AUX.undecided("the contract does not say which states training fed", where=ctx.place("hidden_states", "boundaries"))
        return
    wants = list(recipe) != [FINAL_NORM]
    if value is wants:
        yield USE_AUX.passed(f"use_aux_hidden_state is {said(value)}{'' if found else ' (absent: readers take true)'}")
        return
    fed = "the final normed state alone" if value in (False, None, 0) else "captured states"
    yield USE_AUX.failed(
        f"use_aux_hidden_state is {said(value)}: engines feed {fed}; training fed {recipe_text(recipe)}",
        expected=wants,
        actual=value,
        where=ctx.config_place(found[0].key if found else "eagle_config.use_aux_hidden_state"),
    )
