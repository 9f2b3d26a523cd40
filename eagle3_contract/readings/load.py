"""From files to what a reading looks at. The only module of this package that opens any."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from pathlib import Path

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.tensors import TensorRef
from contract.findings import Json, Where
from contract.jsonio import load_json_file
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.readings.view import DrafterView, Target, TensorHeader

CONFIG = "config.json"
HF_QUANT = "hf_quant_config.json"
ENGINE_DECIDES = frozenset({"files.tensor-in-two-files", "files.missing-shard"})
"""Problems of a folder that a reading reports by what the engine does with them."""
INTEGERS = {"I64": "q", "I32": "i", "I16": "h"}


def load_config(path: str | Path, *, limits: Limits = DEFAULT_LIMITS, whose: str = "drafter") -> dict[str, Json]:
    """A config.json, or the one in a folder.

    Raises:
        InputRejected: it cannot be read, or is no JSON object (rule ``drafter.config-not-object`` or ``target.config-not-object``).
    """
    place = Path(path)
    file = place / CONFIG if place.is_dir() else place
    config = load_json_file(file, limits=limits)
    if not isinstance(config, dict):
        raise InputRejected(
            f"{file} holds {type(config).__name__}, not an object",
            rule=f"{whose}.config-not-object",
            fix=f"Name the {whose}'s folder or its config.json.",
            where=Where(file=str(file)),
        )
    return config


def load_target(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> Target:
    """The target's config, from a file or a folder. Raises like ``load_config``."""
    return Target(load_config(path, limits=limits, whose="target"))


def load_drafter(path: str | Path, *, limits: Limits = DEFAULT_LIMITS, allow_pickle: bool = False) -> DrafterView:
    """A drafter's folder as engines see it: config, headers of every weight file, the span of the vocab map.

    Raises:
        InputRejected: a file cannot be used at all.
    """
    checkpoint = Checkpoint.open(path, limits=limits, strict=False, allow_pickle=allow_pickle)
    for problem in checkpoint.problems:
        if problem.error is not None and problem.error.rule not in ENGINE_DECIDES:
            raise problem.error
    return view_of(checkpoint, load_config(path, limits=limits), name=folder_name(path))


def folder_name(path: str | Path) -> str:
    """The name by which an engine knows a drafter: its folder's, or its repository's for the snapshot of a Hugging Face cache."""
    place = Path(path).resolve()
    snapshots, home = place.parent, place.parent.parent.name
    if snapshots.name == "snapshots" and home.startswith("models--"):
        return home.removeprefix("models--").replace("--", "/")
    return place.name


def view_of(checkpoint: Checkpoint, config: Mapping[str, Json], *, name: str = "drafter") -> DrafterView:
    """An opened checkpoint and its config as a view. Raises InputRejected if the vocab map cannot be read."""
    files = {
        shard.name: {e.name: TensorHeader(e.dtype, tuple(e.shape)) for e in shard.header.entries}
        for shard in (*checkpoint.shards, *checkpoint.extra)
    }
    if not files:
        for ref in checkpoint.tensors.values():
            files.setdefault(ref.file, {})[ref.name] = TensorHeader(ref.dtype, ref.shape)
    index = checkpoint.index
    missing = tuple(s for s in index.shards if s not in files) if index is not None else ()
    return DrafterView(
        config=config,
        files=files,
        index=None if index is None else index.weight_map,
        missing_files=missing,
        name=name,
        d2t_span=_span(checkpoint.tensors),
        hf_quant=_hf_quant(checkpoint),
    )


def _hf_quant(checkpoint: Checkpoint) -> Mapping[str, Json] | None:
    """ModelOpt's own file of a quantisation, which both engines read where config.json names none."""
    if not any(f.name == HF_QUANT for f in checkpoint.files):
        return None
    found = load_json_file(checkpoint.path / HF_QUANT)
    return found if isinstance(found, dict) else None


def _span(tensors: Mapping[str, TensorRef]) -> tuple[int, int] | None:
    """Lowest and highest of i + d2t[i]; None if there is no map of whole numbers."""
    ref = next((t for n, t in tensors.items() if n == "d2t" or n.endswith(".d2t")), None)
    if ref is None or ref.dtype not in INTEGERS or len(ref.shape) != 1 or ref.shape[0] == 0:
        return None
    offsets = array(INTEGERS[ref.dtype], bytes(ref.read_bytes()))
    if sys.byteorder != "little":
        offsets.byteswap()
    ids = [i + offset for i, offset in enumerate(offsets)]
    return min(ids), max(ids)
