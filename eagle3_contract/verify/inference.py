"""Whose reading the inference path has: the engine's that captured, or the one that it imitated; and what would mend its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from contract.errors import UserError
from contract.files.bundle_manifest import Manifest
from contract.findings import Json
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.states import FINAL_NORM, Recipe, State, recipe_text
from eagle3_contract.model.wiring import Reading
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.load import load_drafter, load_target
from eagle3_contract.readings.reading import BOUNDARIES, EngineReading, Field
from eagle3_contract.readings.recorded_flags import recorded_flags
from eagle3_contract.readings.rules import Origin
from eagle3_contract.readings.view import DrafterView, Target

REFERENCE: Final = "transformers"
"""The engine that has no drafter of its own: it feeds what it is told, and runs the contract's wiring."""
IDS: Final = "eagle_aux_hidden_state_layer_ids"
PLACES: Final = ("nested", "top")
"""Where ids are tried for the remedy: nested in ``eagle_config`` (SGLang, vLLM's V1 runner), or at the top (vLLM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceReading:
    """The inference path's reading.

    Attributes:
        reading: recipe and wiring to run; None if they cannot be run.
        reason: why this engine feeds what it feeds, in words; empty for the reference engine.
        fix: what to write into config.json so that it feeds the contract's recipe, proved by reading it back; None if nothing does.
        problem: why the path cannot be run.
        provenance: for the report.
    """

    reading: Reading | None
    reason: str = ""
    fix: str | None = None
    problem: str | None = None
    provenance: Mapping[str, Json] = field(default_factory=dict)


def inference_reading(manifest: Manifest, loaded: LoadedContract, training: Reading, *, target: str | None) -> InferenceReading:
    """The reading under which the captured states were, or would be, used.

    Args:
        manifest: of the bundle.
        loaded: the contract.
        training: the contract's own reading.
        target: the target's folder or config.json; without, what depends on it is unknown.
    """
    provenance: dict[str, Json] = {
        "engine": f"{manifest.engine.name}=={manifest.engine.version}",
        "mode": manifest.engine.mode,
        "dtype": manifest.engine.dtype,
        "device": manifest.engine.device,
        "recipe_fed": list(manifest.recipe_fed),
    }
    who = manifest.imitates
    if who is None and manifest.engine.name == REFERENCE:
        fed = recipe_fed(manifest)
        wiring = replace(training.wiring, states=len(fed))
        reading = Reading(reader=f"{REFERENCE} with the contract's wiring", recipe=fed, wiring=wiring, rollout=training.rollout)
        return InferenceReading(reading=reading, provenance=provenance)
    name, runner, version = (
        (manifest.engine.name, manifest.engine.runner, manifest.engine.version) if who is None else (who.name, who.runner, who.version)
    )
    reference = f"{name}{f'[{runner}]' if runner else ''}{f'=={version}' if version else ''}"
    flags = flags_of(manifest)
    provenance["imitates" if who is not None else "reader"] = reference
    try:
        view = load_drafter(loaded.drafter_folder)
        facts = load_target(target) if target is not None else None
        readings = read(view, reference, facts, flags)
    except UserError as error:
        return InferenceReading(reading=None, problem=f"{reference}: {error.message}", provenance=provenance)
    chosen = readings[0]
    done = to_reading(chosen)
    boundaries = chosen.get(BOUNDARIES)
    reason = f"{chosen.reader}: {_because(boundaries)}"
    fix = remedy(view, reference, facts, training.recipe, flags)
    if isinstance(done, CannotRun):
        return InferenceReading(reading=None, reason=reason, fix=fix, problem=done.reason, provenance=provenance)
    runnable = replace(
        done, recipe=recipe_fed(manifest), wiring=replace(done.wiring, states=len(manifest.recipe_fed)), rollout=training.rollout
    )
    return InferenceReading(reading=runnable, reason=reason, fix=fix, provenance=provenance)


def recipe_fed(manifest: Manifest) -> Recipe:
    """The recipe that the manifest says the engine fed."""
    return tuple(FINAL_NORM if isinstance(s, str) else s for s in manifest.recipe_fed)


def _because(found: Field) -> str:
    looked = ", ".join(found.looked_for)
    if found.origin is Origin.KEY:
        return f"{found.key} gives {found.value} ({found.rule}; {found.source})"
    if found.origin is Origin.DEFAULT:
        return f"found none of {looked} and took its default {found.value} ({found.rule}; {found.source})"
    return f"{found.origin.value}: {found.value} ({found.rule}; {found.source})"


def flags_of(manifest: Manifest) -> dict[str, Any]:
    """The serving flags that the engine of a capture ran with. One that is only imitated was not served."""
    return recorded_flags(manifest.engine.flags) if manifest.imitates is None else {}


def remedy(
    view: DrafterView, reference: str, target: Target | None, recipe: Recipe, flags: Mapping[str, Any] = MappingProxyType({})
) -> str | None:
    """The ids to write, and where, so that an engine captures a recipe: tried on the drafter's config and read back.

    Ids are tried in both numberings (the boundary itself, and one less) and in both places; None if no combination gives the recipe.
    """
    for place in PLACES:
        for shift in (0, -1):
            ids = _ids(recipe, shift)
            if ids is None:
                continue
            config = _with_ids(view.config, place, ids)
            try:
                readings = read(replace(view, config=config), reference, target, flags)
            except UserError:
                return None
            if readings and all(_feeds(r, recipe) for r in readings):
                key = f"eagle_config.{IDS}" if place == "nested" else IDS
                fed = recipe_text(recipe)
                return f'Set "{key}" to {ids} in config.json: {readings[0].reader} then captures {fed} (proved by reading it back).'
    return None


def _feeds(reading: EngineReading, recipe: Recipe) -> bool:
    return reading.error is None and tuple(reading.value(BOUNDARIES) or ()) == recipe


def _ids(recipe: Recipe, shift: int) -> list[int] | None:
    ids = [_id(state, shift) for state in recipe]
    return None if any(i is None for i in ids) else [i for i in ids if i is not None]


def _id(state: State, shift: int) -> int | None:
    return None if isinstance(state, str) else state + shift


def _with_ids(config: Mapping[str, Any], place: str, ids: list[int]) -> dict[str, Any]:
    changed = {k: v for k, v in config.items() if k != IDS}
    nested = config.get("eagle_config")
    inner = {k: v for k, v in nested.items() if k != IDS} if isinstance(nested, Mapping) else {}
    if place == "nested":
        changed["eagle_config"] = {"use_aux_hidden_state": True, **inner, IDS: ids}
    else:
        changed[IDS] = ids
        if inner:
            changed["eagle_config"] = inner
    return changed
