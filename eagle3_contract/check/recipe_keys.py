"""Which states config.json makes readers take, against the recipe: the layer ids under their conventions, and the switch beside them."""

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

IDS_VALID: Final = Rule(
    id="recipe.config-ids-valid",
    title="Layer ids in config.json are whole numbers, ascending, without duplicates",
    severity=_E,
    dimension="keys",
    why="vLLM 0.32.0 sorts them and drops duplicates and out-of-range ones silently; a string or dict gives the defaults or crashes at "
    "the first request; SGLang captures in ascending order whatever the list says (vLLM interfaces.py:1578, observed on both).",
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
RULES: Final = (IDS_VALID, CONFIG_IDS, UNNAMED, USE_AUX)


def config_ids(ctx: CheckContext) -> tuple[list[Setting], list[Setting]]:
    """Layer ids under the key that engines read, and under other keys."""
    return (
        [s for s in ctx.config.eagle(IDS_KEY) if s.value not in (None, [])],
        [s for s in ctx.config.eagle(*UNREAD_KEYS) if s.value not in (None, [])],
    )


def check_recipe_keys(ctx: CheckContext) -> Iterator[Check]:
    """Every list of ids, the switch, and what they come to; nothing without a config.json (another rule says so)."""
    if ctx.drafter.config is None:
        return
    stated = ctx.stated("hidden_states", "boundaries")
    recipe: Sequence[State] | None = stated.value if stated.known else None
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
