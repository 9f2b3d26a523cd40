"""The drafter's folder as the rules see it: config.json, headers, the values of the vocab map, and readers for more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contract.errors import InputRejected, UserError
from contract.files.checkpoint import Checkpoint
from contract.files.inventory import FileKind
from contract.files.tensors import TensorRef, TensorTable
from contract.files.walking import files_below
from contract.findings import Check, Json, Where, check_from_error
from contract.jsonio import load_json
from contract.limits import DEFAULT_LIMITS, MIB, Limits
from eagle3_contract.check.context import DrafterView, StoredTensor
from eagle3_contract.check.files_accounted import NOT_OBJECT
from eagle3_contract.check.scan import Scanner
from eagle3_contract.drafter.names import D2T, T2D, canonical_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

TORCH_NAMES: Final = {
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""safetensors dtypes as torch spells them; others keep the format's name in lower case."""

_NUMPY: Final = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
MAP_BYTES: Final = 64 * MIB
"""A vocab map longer than this is not read; its length is already a violation."""
SAMPLE_BYTES: Final = 4 * MIB
"""Bytes that are sampled of one tensor; a smaller one is read whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDrafter:
    """The view, the checkpoint behind it, and a check for everything that was wrong with the files themselves."""

    view: DrafterView
    checkpoint: Checkpoint
    problems: tuple[Check, ...]


def open_drafter(
    folder: Path,
    listed: Collection[str] = (),
    *,
    other_files: Collection[str] = (),
    allow_pickle: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> OpenedDrafter:
    """Read config, headers and vocab map of a drafter; what is unusable is recorded and the rest is still read.

    Args:
        folder: the drafter's folder.
        listed: names that the contract lists; those in subfolders are looked for.
        other_files: safetensors files of the folder that are no weights (golden rows, samples).

    Raises:
        InputRejected: the folder itself cannot be opened.
    """
    checkpoint = Checkpoint.open(folder, limits=limits, strict=False, known=other_files, allow_pickle=allow_pickle)
    problems = [found.as_check() for found in checkpoint.problems]
    config, rejected = _config(checkpoint, limits)
    values: dict[str, Any] = {}
    refs: dict[StoredTensor, TensorRef] = {}
    for stored_name, ref in _all_refs(checkpoint):
        # The ref of a pickled tensor names a temporary file.
        file = ref.file if checkpoint.shards or checkpoint.extra else Path(ref.file).name
        refs[StoredTensor(name=stored_name, shape=ref.shape, dtype=torch_name(ref.dtype), file=file)] = ref
        name = canonical_name(stored_name)
        if name in (D2T, T2D) and name not in values:
            try:
                values[name] = _array(ref) if ref.nbytes <= MAP_BYTES else None
            except UserError as error:
                rejected.append(check_from_error(error, dimension="vocab"))
    scanner = Scanner(checkpoint)
    view = DrafterView(
        folder=str(folder),
        config=config,
        tensors=tuple(refs),
        files=_files(checkpoint, listed, limits),
        complete=not any(p.error is not None for p in checkpoint.problems),
        d2t=values.get(D2T),
        t2d=values.get(T2D),
        rows=lambda tensor, indices: read_rows(refs[tensor], indices),
        sample=lambda tensor: _sample(refs[tensor]),
        digest=scanner.digest,
        not_finite=lambda tensor: _not_finite(scanner, tensor),
        constant=lambda tensor: _constant(scanner, tensor),
    )
    return OpenedDrafter(view=view, checkpoint=checkpoint, problems=(*problems, *rejected))


def torch_name(dtype: str) -> str:
    """A safetensors dtype as torch spells it."""
    return TORCH_NAMES.get(dtype, dtype.lower())


def _all_refs(checkpoint: Checkpoint) -> list[tuple[str, TensorRef]]:
    """Tensors of the layout's files, then of the weight files beside them."""
    return [*checkpoint.tensors.items(), *TensorTable(checkpoint.extra).items()]


def _config(checkpoint: Checkpoint, limits: Limits) -> tuple[Mapping[str, Json] | None, list[Check]]:
    name = "config.json"
    if not any(f.name == name for f in checkpoint.files):
        return None, []
    try:
        with checkpoint.open_file(name) as opened:
            limits.enforce("json_bytes", opened.size, what=name, where=Where(file=name), rule="files.json-too-large")
            config = load_json(opened.read_all(), file=name, limits=limits)
        if not isinstance(config, dict):
            raise InputRejected(
                f"config.json holds {type(config).__name__}, not an object",
                rule=NOT_OBJECT.id,
                fix=NOT_OBJECT.remedy,
                where=Where(file=name),
            )
    except UserError as error:
        return None, [check_from_error(error, dimension="keys")]
    return config, []


def _files(checkpoint: Checkpoint, listed: Collection[str], limits: Limits) -> frozenset[str]:
    """Every entry of the folder; a subfolder from which the contract lists a file by the files in it, however deep."""
    entered = {name.split("/", 1)[0] for name in listed if "/" in name}
    names: set[str] = set()
    for entry in checkpoint.files:
        if entry.kind is not FileKind.FOLDER or entry.name not in entered:
            names.add(entry.name)
            continue
        for file in files_below(checkpoint.path / entry.name, limits):
            names.add(str(file.relative_to(checkpoint.path)))
            limits.enforce("folder_files", len(names), what=f"{checkpoint.path}: files", where=Where(file=str(checkpoint.path)))
    return frozenset(names)


def _not_finite(scanner: Scanner, tensor: StoredTensor) -> int | None:
    scanned = scanner.weights(tensor.file)
    return None if scanned is None else scanned.not_finite.get(tensor.name)


def _constant(scanner: Scanner, tensor: StoredTensor) -> bool:
    scanned = scanner.weights(tensor.file)
    return scanned is not None and tensor.name in scanned.constant


def _array(ref: TensorRef) -> NDArray[Any] | None:
    """The values of a tensor; bfloat16 as float32; None for a dtype that numpy lacks."""
    return _decode(ref, ref.read_bytes(), ref.shape)


def _decode(ref: TensorRef, data: bytes | bytearray, shape: tuple[int, ...]) -> NDArray[Any] | None:
    import numpy as np

    if ref.dtype == "BF16":
        bits = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)
    if ref.dtype not in _NUMPY:
        return None
    return np.frombuffer(data, dtype=_NUMPY[ref.dtype]).reshape(shape)


def _sample(ref: TensorRef) -> NDArray[Any] | None:
    """Rows of a float tensor, spread evenly and with the first and last among them; None for other dtypes."""
    if ref.dtype not in ("BF16", "F16", "F32", "F64") or not ref.shape or not ref.nbytes:
        return None
    if ref.nbytes <= SAMPLE_BYTES:
        return _array(ref)
    rows = min(ref.shape[0], max(2, SAMPLE_BYTES // ref.row_bytes))
    return read_rows(ref, spread(ref.shape[0], rows))


def spread(count: int, wanted: int) -> list[int]:
    """At most ``wanted`` (two or more) indices below ``count``, spread evenly, the first and the last among them."""
    return sorted({round(i * (count - 1) / (wanted - 1)) for i in range(wanted)})


def read_rows(ref: TensorRef, indices: Sequence[int]) -> NDArray[Any] | None:
    """Rows of a tensor in the order asked; None for a dtype that numpy lacks. Raises InputRejected if the file changed meanwhile."""
    return _decode(ref, ref.read_rows(indices), (len(indices), *ref.shape[1:]))
