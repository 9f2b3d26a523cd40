"""Rules that several trainers share, so that each adapter states only where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagle3_contract.model.states import Recipe
from eagle3_contract.trainers.base import check_ids
from eagle3_contract.trainers.reading import BOUNDARIES, Candidate, TargetFacts
from eagle3_contract.trainers.statements import Statements

PLAIN: Final = {
    "wiring.double_norm": False,
    "wiring.norm_before_residual": False,
    "wiring.later_layer_norm": "none",
    "wiring.final_norm": True,
    "wiring.feedback": "pre_norm",
    "wiring.concat_order": "embedding_first",
    "wiring.window": None,
    "wiring.window_follows_steps": True,
    "alignment.token_shift": 1,
    "alignment.positions_start": 0,
    "alignment.step_positions": "advance",
    "training.rollout": "teacher",
}
"""EAGLE-3 as its authors train it: EAGLE cb7e084 traineagle3/cnets.py:700-880, and every trainer derived from it."""


def output_ids(layers: int) -> tuple[int, int, int]:
    """[1, N//2-1, N-4] in ids that mean "output of layer k" (SpecForge 0.2.0 algorithms/model_providers.py:204, ModelOpt 0.47.0
    hf_eagle.py:58-63, AngelSlim 0.5.0 target_model_wrapper.py:590-594, TorchSpec 6f21829 utils/misc.py:76-87): boundaries
    (2, N//2, N-3)."""
    return (1, max(0, layers // 2 - 1), max(0, layers - 4))


def after_output(ids: Sequence[object], layers: int, trainer: str) -> Recipe:
    """Ids that mean the output of layer k are boundaries k+1. Raises UserError ``trainers.layer-ids``."""
    return tuple(i + 1 for i in check_ids(ids, layers, lowest=0, highest=layers - 1, trainer=trainer))


def state_target(s: Statements, target: TargetFacts, *, normed: bool | None, applied: bool | None, source: str) -> None:
    """State which state the training target was computed from, where it is the last one. None = the dump decides, and is not at hand."""
    if target.layers is not None:
        s.rule("training.target_state.boundary", target.layers, f"the last state; {source}")
    else:
        s.unknown("training.target_state.boundary", "the number of the target's layers is not known")
    for path, value in (("normed", normed), ("norm_applied_by_trainer", applied)):
        if value is None:
            s.unknown(f"training.target_state.{path}", f"it depends on what wrote the states; {source}")
        else:
            s.rule(f"training.target_state.{path}", value, source)


def state_recipe(s: Statements, candidates: Sequence[Candidate], reason: str) -> tuple[Candidate, ...]:
    """State an unknown recipe; gives back the candidates that the config leaves open, once each. None of them is likely enough to be
    assumed: another recipe than training's costs two thirds of the accepted drafts and shows nowhere else."""
    kept: list[Candidate] = []
    for candidate in candidates:
        if candidate.recipe not in [c.recipe for c in kept]:
            kept.append(candidate)
    s.unknown(BOUNDARIES, reason)
    return tuple(kept)


def state_norms_before_fc(s: Statements, norms: list[str], source: str) -> None:
    """State the norms before fc as the stored tensors show them."""
    s.measured("wiring.norms_before_fc", norms, source)
