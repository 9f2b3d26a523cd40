"""Tensors on disk as torch tensors. The one module of this package that imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import torch

from contract.errors import InputRejected
from contract.files.names import shown
from contract.files.paths import OpenedFile
from contract.files.rules import rejected
from contract.files.tensors import TensorRef
from contract.findings import Where

TORCH_DTYPES: Final[Mapping[str, torch.dtype]] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""safetensors dtype to torch dtype; the sub-byte dtypes have none."""


def load_tensor(ref: TensorRef) -> torch.Tensor:
    """Read a whole tensor into memory of its own.

    Raises:
        InputRejected: the dtype is none of torch's, or the file changed or cannot be read.
    """
    tensor, view = _empty(ref, ref.shape)
    if ref.nbytes:
        ref.read_into(view)
    return _checked(ref, tensor)


def load_tensors(refs: Mapping[str, TensorRef]) -> dict[str, torch.Tensor]:
    """Read whole tensors, each into memory of its own; a file that holds several of them is opened once.

    Raises:
        InputRejected: as ``load_tensor``.
    """
    found: dict[str, torch.Tensor] = {}
    opened: dict[int, OpenedFile] = {}
    with ExitStack() as stack:
        for key, ref in refs.items():
            found[key], view = _empty(ref, ref.shape)
            if not ref.nbytes:
                continue
            if id(ref.shard) not in opened:
                opened[id(ref.shard)] = stack.enter_context(ref.shard.open())
            opened[id(ref.shard)].read_into(ref.offset, view)
        for file in opened.values():
            file.verify_unchanged()
    return {key: _checked(refs[key], tensor) for key, tensor in found.items()}


def load_rows(ref: TensorRef, rows: Sequence[int]) -> torch.Tensor:
    """Read rows (indices of the first dimension) in the order asked, shape ``[len(rows), *ref.shape[1:]]``; only they are read.

    Raises:
        InputRejected: as ``load_tensor``.
        InternalError: a row is not in the tensor.
    """
    tensor, view = _empty(ref, (len(rows), *ref.shape[1:]))
    ref.read_rows_into(rows, view)
    return _checked(ref, tensor)


def _empty(ref: TensorRef, shape: Sequence[int]) -> tuple[torch.Tensor, memoryview]:
    dtype = TORCH_DTYPES.get(ref.dtype)
    if dtype is None:
        raise rejected(
            "files.unsupported-dtype",
            f"{shown(ref.file)}: tensor {shown(ref.name)} has the dtype {shown(ref.dtype)}, which torch does not have",
            where=Where(file=shown(ref.file), tensor=shown(ref.name)),
        )
    tensor = torch.empty(tuple(shape), dtype=dtype, device="cpu")
    return tensor, tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(bytearray())


def _checked(ref: TensorRef, tensor: torch.Tensor) -> torch.Tensor:
    """A bool is one byte of 0 or 1; another byte is undefined behaviour in kernels that read it."""
    if tensor.dtype is torch.bool and bool((tensor.view(torch.uint8) > 1).any()):
        raise _not_bool(ref)
    return tensor


def _not_bool(ref: TensorRef) -> InputRejected:
    return rejected(
        "files.unsupported-dtype",
        f"{shown(ref.file)}: tensor {shown(ref.name)} is BOOL and holds bytes above 1",
        where=Where(file=shown(ref.file), tensor=shown(ref.name)),
    )
