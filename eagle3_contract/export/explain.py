"""Why no config.json says it: what the nearest one does instead, and what would have to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contract.findings import Check, Json
from eagle3_contract.export.permute import ascending
from eagle3_contract.export.rules import EXPRESSIBLE
from eagle3_contract.export.trial import Trial
from eagle3_contract.model.states import FINAL_NORM, Recipe, recipe_text
from eagle3_contract.readings.rules import Origin

PERMUTE: Final = "--permute-fc"
_CHANGES: Final[Mapping[str, str]] = {
    "reading.norm-before-residual": "train with norm_before_residual false, or serve on vLLM, which reads it",
    "reading.double-norm": "train without the second norm; no engine computes it",
    "reading.final-norm": "train with the final norm before the head; every engine applies it",
    "reading.feedback": "train with the state that this release feeds back, or serve a release that reads norm_output",
    "reading.norms-before-fc": "train without the norm, or serve a release that reads its flag",
    "reading.window": "train with full attention, or set the window with a serving flag where the engine has one",
    "reading.embedding": "train with the target's embedding, or serve on an engine that keeps the drafter's own",
    "reading.lm-head": "store the head that training used in the drafter's own folder",
    "reading.vocab-map": "write d2t as offsets (subtract i from entry i)",
    "reading.attention": "train without what this engine's attention lacks",
    "reading.later-layer-norm": "train later layers with the norm that this engine loads, or with one layer",
    "reading.dtype": "store the weights in bfloat16, or serve with --dtype bfloat16",
    "reading.token-shift": "train with token_shift 1",
    "reading.step-positions": "train with positions that advance",
    "reading.table-length": "serve at most as many tokens as the drafter was trained for",
    "reading.tensors": "store every tensor that this engine needs, in the shapes of the contract",
}


def not_expressible(recipe: Recipe, jointly: Trial, alone: Mapping[str, Trial]) -> Iterator[Check]:
    """A failed check per engine that has no config of its own; one for all of them if they only disagree with each other.

    Args:
        recipe: of the contract.
        jointly: the nearest config for all engines.
        alone: the nearest config for each engine by itself.
    """
    hopeless = {engine: trial for engine, trial in alone.items() if trial.wrong}
    for engine, trial in hopeless.items():
        checks = trial.wrong[engine]
        yield EXPRESSIBLE.failed(
            f"no config.json makes {engine} do what training did: {_first(checks)}",
            fix="What would have to change: " + "; ".join(dict.fromkeys(_change(c, recipe) for c in checks)) + ".",
            evidence={"engine": engine, "closest": trial.candidate.config, "differs": _differences(checks)},
        )
    if not hopeless:
        engines = ", ".join(jointly.wrong)
        checks = tuple(c for found in jointly.wrong.values() for c in found)
        yield EXPRESSIBLE.failed(
            f"each engine can be told alone, but no one config.json tells all of them: the nearest one is misread by {engines}: "
            f"{_first(checks)}",
            fix="Export a folder for each of these engines by itself.",
            evidence={"closest": jointly.candidate.config, "differs": _differences(checks)},
        )


def _first(checks: tuple[Check, ...]) -> str:
    more = f" (and {len(checks) - 1} more)" if len(checks) > 1 else ""
    return checks[0].message + more


def _differences(checks: tuple[Check, ...]) -> list[Json]:
    return [{"rule": c.rule, "training": c.expected, "engine": c.actual, "message": c.message} for c in checks]


def _change(check: Check, recipe: Recipe) -> str:
    flags = [k for k in check.evidence.get("looked_for", ()) if str(k).startswith("--")]
    if check.rule == "reading.boundaries" and flags:
        return f"name the states with {flags[0]}: this engine reads no key for them"
    if check.rule == "reading.boundaries" and check.evidence.get("origin") == Origin.HARD_CODED.value:
        return f"train on {check.actual}, which this release feeds whatever a key says, or serve a release that reads ids"
    if check.rule in ("reading.boundaries", "reading.fc-count") or (check.rule == "reading.outcome" and ascending(recipe).changes):
        if ascending(recipe).changes:
            return f"feed fc the states in ascending order: {PERMUTE} writes a drafter whose columns are permuted so"
        if FINAL_NORM in recipe:
            return "train on boundary N instead of the normed last state: no id of this engine names it as one of several"
        return f"train on states that this engine captures: {recipe_text(recipe)} is not among what its ids can name"
    if check.rule == "reading.outcome":
        return f"mend what stops the engine ({check.message})"
    return _CHANGES.get(check.rule, f"make {check.rule.removeprefix('reading.')} of training what the engine does")
