"""Capture from transformers, the reference engine: hooks on the running target record every boundary into a bundle.

transformers has no EAGLE-3 drafter of its own; which states are fed is given as a recipe, so that any engine's reading, a wrong one
too, can be imitated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from torch import Tensor

from contract.files.bundle_manifest import FINAL_NORM as FINAL_NORM_TENSOR
from contract.files.bundle_manifest import GREEDY, INPUT_IDS, POSITION_IDS, EngineInfo, ImitatedEngine, ModelInfo
from contract.files.bundle_tensors import entries
from contract.files.bundle_writer import BundleWriter
from contract.files.inventory import FileKind, list_folder
from contract.files.paths import Folder
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.engines.recorder import repeated_states
from eagle3_contract.engines.rules import rejected, tool_error
from eagle3_contract.engines.target import Forward, Target, load_target
from eagle3_contract.model.states import FINAL_NORM, Recipe, State, recipe_text, state_name

ENGINE: Final = "transformers"
KIND: Final = "eagle3"
HASHED_WEIGHT_BYTES: Final = 4 << 30
"""Weights up to this size in all are hashed for the manifest; larger ones would take longer than the capture."""


class Prompt(NamedTuple):
    """A prompt by token ids; ``sample`` names the training sample that it is."""

    id: str
    input_ids: Sequence[int] | Tensor
    sample: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the manifest says beyond what the capture knows by itself.

    Attributes:
        target_id: the target's name and revision, if known (never the path of a folder).
        drafter: the drafter that the states are for.
        imitates: the engine whose reading the recipe is.
        flags: anything else that decided the result.
    """

    target_id: str | None = None
    drafter: ModelInfo | None = None
    imitates: ImitatedEngine | None = None
    flags: Mapping[str, str] = field(default_factory=dict)


def capture(
    target_dir: str | Path,
    prompts: Iterable[Prompt | tuple[str, Sequence[int] | Tensor]],
    recipe: Recipe,
    out: str | Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    sweep: bool = True,
    provenance: Provenance | None = None,
    allow_repeats: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Load a target, run the prompts, and write a bundle.

    Args:
        target_dir: a local folder.
        prompts: run one by one; nothing of one is kept when the next runs.
        recipe: the states that become the slots, in order.
        out: the bundle, a free name or an empty folder.
        dtype: see ``load_target``.
        device: see ``load_target``.
        sweep: record every boundary and ``final_norm``, not the slots only; attribution needs them.
        provenance: what to write into the manifest.
        allow_repeats: do not refuse a target in which boundaries are equal bit for bit.
        limits: the bounds.

    Returns:
        The bundle's path.

    Raises:
        ToolError: the target does not load or its stream cannot be recorded (rules ``engine.*``).
        InputRejected: a prompt, the recipe or the place is unusable.
    """
    target = load_target(target_dir, dtype=dtype, device=device)
    more = provenance or Provenance()
    model = ModelInfo(id=more.target_id, model_type=target.model_type, files=file_digests(target_dir, limits=limits))
    return capture_from(target, prompts, recipe, out, model=model, sweep=sweep, provenance=more, allow_repeats=allow_repeats, limits=limits)


def capture_from(
    target: Target,
    prompts: Iterable[Prompt | tuple[str, Sequence[int] | Tensor]],
    recipe: Recipe,
    out: str | Path,
    *,
    model: ModelInfo,
    sweep: bool = True,
    provenance: Provenance | None = None,
    allow_repeats: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """``capture`` from a target that is loaded already; ``model`` identifies it."""
    check_recipe(recipe, target.layers)
    more = provenance or Provenance()
    engine = EngineInfo(
        name=ENGINE,
        version=target.version,
        runner=None,
        mode="eager",
        flags={"attn_implementation": "eager", **more.flags},
        device=str(target.device),
        dtype=target.dtype,
        tp=1,
        pp=1,
        layer_ids=None,
    )
    with BundleWriter(
        out,
        kind=KIND,
        engine=engine,
        target=model,
        recipe_fed=recipe,
        layers=target.layers,
        drafter=more.drafter,
        imitates=more.imitates,
        limits=limits,
    ) as bundle:
        for prompt in (Prompt(*p) for p in prompts):
            forward = target.forward(prompt.input_ids, None if sweep else set(recipe))
            if not allow_repeats:
                _refuse_repeats(prompt.id, forward.states)
            bundle.add(prompt.id, entries(request_tensors(forward, recipe, sweep=sweep)), sample=prompt.sample)
    return Path(out)


def request_tensors(forward: Forward, recipe: Recipe, *, sweep: bool) -> dict[str, Tensor]:
    """The tensors of one request, by their names in a bundle."""
    tensors = {INPUT_IDS: forward.input_ids, POSITION_IDS: forward.position_ids}
    tensors |= {f"slot.{i}": forward.states[state] for i, state in enumerate(recipe)}
    if sweep:
        tensors |= {_tensor_name(state): tensor for state, tensor in forward.states.items()}
    return tensors | {GREEDY: forward.greedy}


def greedy_continuation(
    target_dir: str | Path, input_ids: Sequence[int] | Tensor, new_tokens: int, *, dtype: str = "auto", device: str = "auto"
) -> list[int]:
    """The target's own greedy tokens after a prompt; see ``Target.continuation``. Raises like ``load_target``."""
    return load_target(target_dir, dtype=dtype, device=device).continuation(input_ids, new_tokens)


def check_recipe(recipe: Recipe, layers: int) -> None:
    """Raise InputRejected (``engine.recipe``) unless every state exists in a target with that many layers."""
    unknown = [s for s in recipe if not (s == FINAL_NORM if isinstance(s, str) else 0 <= s <= layers)]
    if unknown or not recipe:
        raise rejected(
            "engine.recipe", f"recipe {recipe_text(recipe)} for a target of {layers} layers (boundaries 0 to {layers}, final_norm)"
        )


def file_digests(folder: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    """``sha256:...`` of the config and tokenizer files of a model folder, and of its weights if they are not too many bytes."""
    with Folder(folder) as opened:
        files, _ = list_folder(opened, limits=limits)
        weights = [f for f in files if f.kind in (FileKind.WEIGHTS, FileKind.INDEX)]
        chosen = [f for f in files if f.kind in (FileKind.CONFIG, FileKind.TOKENIZER) and f.usable]
        if sum(f.size for f in weights) <= HASHED_WEIGHT_BYTES:
            chosen += [f for f in weights if f.usable]
        digests = {}
        for info in chosen:
            with opened.open(info.name) as file:
                digests[info.name] = f"sha256:{file.sha256()}"
    return dict(sorted(digests.items()))


def _refuse_repeats(id_: str, states: Mapping[State, Tensor]) -> None:
    pairs = repeated_states(states)
    if pairs:
        words = ", ".join(f"{state_name(a)} = {state_name(b)}" for a, b in pairs[:5])
        raise tool_error("engine.boundaries-repeat", f"request {id_}: states are equal bit for bit: {words} ({len(pairs)} pairs)")


def _tensor_name(state: State) -> str:
    return FINAL_NORM_TENSOR if state == FINAL_NORM else f"boundary.{state}"
