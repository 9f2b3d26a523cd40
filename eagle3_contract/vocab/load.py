"""Vocab maps wherever a trainer leaves them, and whether they agree: ``.npy`` files (speculators), ``.pt`` files (SpecForge, AngelSlim,
EAGLE's cache.pt, ModelOpt's bare tensor) and the checkpoint itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contract.errors import InputRejected
from contract.files.npy import load_npy
from contract.files.pickled import load_pickled
from contract.files.tensors import TensorRef
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.model.names import canonical

NUMPY_DTYPES: Final = {
    "BOOL": np.bool_, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "U16": np.uint16,
    "U32": np.uint32, "U64": np.uint64, "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip
MAP_FILES: Final = ("d2t*.npy", "t2d*.npy", "d2t.pt", "vocab_mapping.pt", "vocab_mapping/vocab_mapping.pt", "cache.pt")
"""Where speculators (``d2t-{DV}.npy``, 0.3: ``d2t.npy``), ModelOpt, AngelSlim, SpecForge and EAGLE write them. Which file is what is then
told by content."""


@dataclass(frozen=True, slots=True)
class VocabSource:
    """What one place holds of a vocab map; ``place`` is how messages call it. Dtypes are as stored."""

    place: str
    d2t: NDArray[Any] | None = None
    t2d: NDArray[Any] | None = None


def find_map_files(folder: str | Path) -> list[Path]:
    """The vocab map files of a training run's folder, sorted; not those of other folders below it."""
    place = Path(folder)
    return sorted({path for pattern in MAP_FILES for path in place.glob(pattern) if path.is_file()})


def load_map(path: str | Path, *, allow_pickle: bool = False, limits: Limits = DEFAULT_LIMITS) -> VocabSource:
    """Read one map file: an array of bools is ``t2d``, any other ``d2t``; a record names them.

    Raises:
        InputRejected: ``vocab.no-map`` if the file holds neither; ``files.*`` if it is malformed or pickle-based without the opt-in.
    """
    place = Path(path)
    if place.suffix == ".npy":
        return _told(str(place), load_npy(place, limits=limits))
    tree = load_pickled(place, allow_pickle=allow_pickle, limits=limits)
    if isinstance(tree, TensorRef):
        return _told(str(place), as_numpy(tree))
    if isinstance(tree, dict):
        held = {key: as_numpy(tree[key]) for key in ("d2t", "t2d") if isinstance(tree.get(key), TensorRef)}
        if held:
            return VocabSource(str(place), **held)
    raise InputRejected(f"{place} holds neither d2t nor t2d", rule="vocab.no-map", fix="Name a vocab map.", where=Where(file=str(place)))


def checkpoint_map(tensors: Mapping[str, TensorRef], place: str) -> VocabSource:
    """The map that a checkpoint carries; both None if it carries none."""
    held = {canonical(name): ref for name, ref in tensors.items() if canonical(name) in ("d2t", "t2d")}
    return VocabSource(place, **{name: as_numpy(ref) for name, ref in held.items()})


def disagreements(sources: Sequence[VocabSource]) -> list[str]:
    """What contradicts what, as sentences naming both places; empty if all that hold the same thing hold it alike."""
    found = []
    for what in ("d2t", "t2d"):
        holders = [(s.place, getattr(s, what)) for s in sources if getattr(s, what) is not None]
        for place, values in holders[1:]:
            first_place, first = holders[0]
            if first.shape != values.shape:
                found.append(f"{what}: {first_place} has shape {list(first.shape)}, {place} {list(values.shape)}")
            elif (differs := np.atleast_1d(first != values)).any():
                at = int(np.argmax(differs))
                found.append(
                    f"{what}: {first_place} and {place} differ in {int(differs.sum())} of {differs.size} entries, "
                    f"the first at {at}: {first.flat[at]} and {values.flat[at]}"
                )
    return found


def as_numpy(ref: TensorRef) -> NDArray[Any]:
    """A stored tensor as an array of its own dtype (bfloat16 as float32, which holds it exactly; other dtypes as raw bytes)."""
    data = ref.read_bytes()
    if ref.dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(ref.shape)
    if ref.dtype not in NUMPY_DTYPES:
        return np.frombuffer(data, np.dtype("V1"))
    return np.frombuffer(data, np.dtype(NUMPY_DTYPES[ref.dtype]).newbyteorder("<")).reshape(ref.shape)


def _told(place: str, array: NDArray[Any]) -> VocabSource:
    return VocabSource(place, t2d=array) if array.dtype == np.bool_ else VocabSource(place, d2t=array)
