"""A drafter's folder as a :class:`DrafterView`: config.json and the headers of its weights, in whatever container a trainer left them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.pickled import load_pickled
from contract.files.tensors import TensorRef
from contract.findings import Json, Where
from contract.jsonio import load_json_file
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.model.view import DrafterView, TensorHeader

CONFIG: Final = "config.json"
DRAFT_CONFIG: Final = "draft_config.json"
"""SpecForge's name for the config that a run is started with."""
TRAINING_STATE: Final = "training_state.pt"
STATE_KEY: Final = "draft_state_dict"
"""Where SpecForge's training state keeps the drafter's weights (0.2.0: ``{run}-step{N}/training_state.pt``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedView:
    """A view, and its tensors on disk under their stored names."""

    view: DrafterView
    tensors: Mapping[str, TensorRef]


def load_view(folder: str | Path, *, allow_pickle: bool = False, limits: Limits = DEFAULT_LIMITS) -> DrafterView:
    """The view of a folder. Raises like :func:`open_view`."""
    return open_view(folder, allow_pickle=allow_pickle, limits=limits).view


def open_view(folder: str | Path, *, allow_pickle: bool = False, limits: Limits = DEFAULT_LIMITS) -> LoadedView:
    """Read config.json and the headers of the weights of a folder (or of one weight file; its config is then beside it).

    Args:
        folder: safetensors (sharded or not), ``pytorch_model.bin``, or SpecForge's ``training_state.pt``; the last one's config may be
            ``draft_config.json``, in its folder or the one above, where a run keeps it.
        allow_pickle: load pickle-based files, in a child process.

    Raises:
        InputRejected: a file is missing, hostile or malformed (``files.*``, ``drafter.config``).
        LimitExceeded: a named limit was hit.
    """
    place = Path(folder)
    home = place if place.is_dir() else place.parent
    state = place if place.name == TRAINING_STATE else place / TRAINING_STATE
    if state.is_file() and not any(home.glob("*.safetensors")):
        tensors, names = _training_state(state, allow_pickle, limits), tuple(sorted(p.name for p in home.iterdir()))
        metadata: dict[str, str] = {}
        config = _config((home / CONFIG, home / DRAFT_CONFIG, home.parent / DRAFT_CONFIG), limits)
    else:
        checkpoint = Checkpoint.open(place, limits=limits, allow_pickle=allow_pickle)
        tensors, names = dict(checkpoint.tensors), tuple(sorted(f.name for f in checkpoint.files))
        metadata = {key: value for shard in checkpoint.shards for key, value in shard.header.metadata.items()}
        config = _config((home / CONFIG,), limits)
    headers = {name: TensorHeader(ref.dtype, ref.shape) for name, ref in tensors.items()}
    return LoadedView(view=DrafterView(config=config, tensors=headers, files=names, metadata=metadata), tensors=tensors)


def _config(places: tuple[Path, ...], limits: Limits) -> Mapping[str, Json]:
    """The first config that exists; ``places[0]`` is the one to name when none does."""
    path = next((p for p in places if p.exists()), places[0])
    config = load_json_file(path, limits=limits)
    if not isinstance(config, dict):
        raise InputRejected(
            f"{path} holds a JSON {type(config).__name__}, not an object",
            rule="drafter.config",
            fix="Put the drafter's config.json there.",
            where=Where(file=str(path)),
        )
    return config


def _training_state(path: Path, allow_pickle: bool, limits: Limits) -> dict[str, TensorRef]:
    tree = load_pickled(path, allow_pickle=allow_pickle, limits=limits)
    weights = tree.get(STATE_KEY) if isinstance(tree, dict) else None
    if not isinstance(weights, dict) or not all(isinstance(n, str) and isinstance(t, TensorRef) for n, t in weights.items()):
        raise InputRejected(
            f"{path} holds no tensors under {STATE_KEY!r}",
            rule="drafter.training-state",
            fix="Name the folder of a SpecForge training state of its EAGLE-3 strategy, or an export of it.",
            where=Where(file=str(path)),
        )
    return weights
