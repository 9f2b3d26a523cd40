"""Our own container: one safetensors file a sample, documented in docs/sample-format.md, for trainers that have none and for conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from contract.errors import UsageError
from contract.files.dtypes import DTYPE_BITS
from contract.files.tensors import TensorRef
from contract.files.torch_tensors import TORCH_DTYPES, load_tensors
from contract.files.writing import write_safetensors
from contract.findings import Json
from contract.jsonio import load_json
from eagle3_contract.model.states import FINAL_NORM, Recipe, State
from eagle3_contract.trainers.sample import (
    SampleRejected,
    TrainingSample,
    mask_row,
    rejected,
    require_states,
    same_length,
    state_rows,
    token_row,
)

FORMAT: Final = "eagle3-contract-sample"
FORMAT_VERSION: Final = "1"
TENSORS: Final = frozenset({"input_ids", "loss_mask", "states", "last_hidden_state", "document_ids", "target_argmax"})
METADATA: Final = frozenset({"format", "format_version", "boundaries", "last", "dtype"})
_SAFETENSORS_DTYPES: Final = {dtype: name for name, dtype in TORCH_DTYPES.items()}
_FIX: Final = "See docs/sample-format.md."


def read_neutral(tensors: Mapping[str, TensorRef], metadata: Mapping[str, str], *, name: str, file: str) -> TrainingSample:
    """The sample in one file.

    Raises:
        SampleRejected: another version, an unknown tensor or key, or tensors that contradict each other or the metadata.
    """
    if metadata.get("format_version") != FORMAT_VERSION:
        raise rejected("format-version", f"format_version is {metadata.get('format_version')!r}; {FORMAT_VERSION!r} is read", file, _FIX)
    for what, given, known in (("tensor", tensors, TENSORS), ("metadata key", metadata, METADATA)):
        if strange := sorted(set(given) - known):
            raise rejected("unknown-key", f"the {what} {strange[0]!r} is not part of the format", file, _FIX)
    if missing := sorted({"input_ids", "states"} - set(tensors)):
        raise rejected("missing-tensor", f"has no tensor {missing[0]}", file, _FIX)
    held = load_tensors(tensors)
    ids = token_row(held["input_ids"], "input_ids", file)
    stored = held["states"]
    if stored.ndim != 3 or 0 in stored.shape[1:]:
        raise rejected("shape", f"states has shape {list(stored.shape)}; [tokens, states, width] is due", file)
    require_states(stored.shape[1], "states", file)
    width = stored.shape[2]
    states = torch.split(state_rows(stored.flatten(1), "states", len(ids), file), width, dim=-1)
    boundaries = _recipe(metadata, len(states), file)
    if "dtype" in metadata and metadata["dtype"] != str(stored.dtype).removeprefix("torch."):
        raise rejected("dtype", f"dtype says {metadata['dtype']!r}, the states are {stored.dtype}", file, _FIX)
    last = state_rows(held["last_hidden_state"], "last_hidden_state", len(ids), file) if "last_hidden_state" in held else None
    if last is not None and last.shape[1] != width:
        raise rejected("shape", f"last_hidden_state is {last.shape[1]} wide, the states are {width}", file, _FIX)
    return TrainingSample(
        name=name,
        file=file,
        format=FORMAT,
        input_ids_T=ids,
        loss_mask_T=mask_row(held["loss_mask"], "loss_mask", len(ids), file) if "loss_mask" in held else None,
        states_THk=states,
        last_TG=last,
        boundaries=boundaries,
        last=_last(metadata, file),
        document_ids_T=_documents(held["document_ids"], len(ids), file) if "document_ids" in held else None,
        extras={"target_argmax": _argmax(held["target_argmax"], len(ids), file)} if "target_argmax" in held else {},
    )


def write_sample(
    path: str | Path,
    *,
    input_ids_T: Tensor,
    states_THk: Sequence[Tensor],
    loss_mask_T: Tensor | None = None,
    last_TG: Tensor | None = None,
    boundaries: Recipe | None = None,
    last: State | None = None,
    document_ids_T: Tensor | None = None,
    target_argmax_T: Tensor | None = None,
) -> None:
    """Write one sample atomically. Shapes as in :class:`TrainingSample`; the states share one dtype and width.

    Raises:
        UsageError: ``samples.write`` if it could not be read back (lengths, dtypes, NaN and so on), with the reason.
        InputRejected: ``files.write-failed``.
    """
    file = str(path)
    try:
        ids = token_row(input_ids_T, "input_ids", file)
        if not states_THk or len({(s.dtype, tuple(s.shape)) for s in states_THk}) > 1:
            raise rejected("shape", "the states differ in shape or dtype, or there are none", file)
        require_states(len(states_THk), "states", file)
        states = torch.stack([state_rows(s, f"states[{i}]", len(ids), file) for i, s in enumerate(states_THk)], dim=1)
        tensors = {"input_ids": ids, "states": states}
        if loss_mask_T is not None:
            tensors["loss_mask"] = mask_row(loss_mask_T, "loss_mask", len(ids), file)
        if last_TG is not None:
            tensors["last_hidden_state"] = state_rows(last_TG, "last_hidden_state", len(ids), file)
        if document_ids_T is not None:
            tensors["document_ids"] = _documents(document_ids_T, len(ids), file)
        if target_argmax_T is not None:
            tensors["target_argmax"] = _argmax(target_argmax_T, len(ids), file)
        if boundaries is not None and len(boundaries) != len(states_THk):
            raise rejected("boundaries", f"{len(boundaries)} boundaries for {len(states_THk)} states", file)
    except SampleRejected as error:
        raise UsageError(error.message, rule="samples.write", fix="Hand over tensors as the docstring says.") from error
    metadata = {"format": FORMAT, "format_version": FORMAT_VERSION, "dtype": str(states.dtype).removeprefix("torch.")}
    if boundaries is not None:
        metadata["boundaries"] = "[" + ", ".join(f'"{b}"' if b == FINAL_NORM else str(b) for b in boundaries) + "]"
    if last is not None:
        metadata["last"] = FINAL_NORM if last == FINAL_NORM else f"boundary {last}"
    write_safetensors(path, {key: _stored(value) for key, value in tensors.items()}, metadata)


def _argmax(value: Tensor, tokens: int, file: str) -> Tensor:
    argmax = token_row(value, "target_argmax", file)
    same_length(argmax, "target_argmax", tokens, file)
    return argmax


def _stored(value: Tensor) -> tuple[str, list[int], bytes]:
    dtype = _SAFETENSORS_DTYPES[value.dtype]
    data = value.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes() if DTYPE_BITS[dtype] >= 8 else b""
    return dtype, list(value.shape), data


def _recipe(metadata: Mapping[str, str], count: int, file: str) -> Recipe | None:
    if "boundaries" not in metadata:
        return None
    listed: Json = load_json(metadata["boundaries"].encode(), file=f"{file} (boundaries)")
    valid = isinstance(listed, list) and all(b == FINAL_NORM or _is_boundary(b) for b in listed)
    if not valid or len(listed) != count:
        raise rejected("boundaries", f"boundaries {metadata['boundaries'][:80]} do not name the {count} states", file, _FIX)
    return tuple(listed)


def _last(metadata: Mapping[str, str], file: str) -> State | None:
    if "last" not in metadata:
        return None
    said = metadata["last"]
    number = said.removeprefix("boundary ")
    if said == FINAL_NORM:
        return FINAL_NORM
    if number == said or not number.isdecimal() or len(number) > 5:
        raise rejected("boundaries", f"last is {said[:40]!r}; `boundary N` or `{FINAL_NORM}` is due", file, _FIX)
    return int(number)


def _is_boundary(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000


def _documents(value: Tensor, tokens: int, file: str) -> Tensor:
    if value.dtype not in (torch.int64, torch.int32) or value.ndim != 1:
        raise rejected("dtype", f"document_ids is {value.dtype} of shape {list(value.shape)}; [tokens] whole numbers are due", file, _FIX)
    same_length(value, "document_ids", tokens, file)
    return value.to(torch.int64)
