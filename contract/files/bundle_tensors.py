"""Torch tensors as entries of a bundle. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from contract.errors import InternalError
from contract.files.bundle_writer import Entry
from contract.files.torch_tensors import TORCH_DTYPES

_NAMES: Final[Mapping[torch.dtype, str]] = {dtype: name for name, dtype in TORCH_DTYPES.items()}


def entries(tensors: Mapping[str, torch.Tensor]) -> dict[str, Entry]:
    """What ``BundleWriter.add`` takes, in the order of the map.

    The bytes are views of the tensors where these are contiguous and on the CPU, so that nothing may write to them before they are
    written.

    Raises:
        InternalError: a dtype that safetensors does not have.
    """
    return {name: _entry(name, tensor) for name, tensor in tensors.items()}


def _entry(name: str, tensor: torch.Tensor) -> Entry:
    if tensor.dtype not in _NAMES:
        raise InternalError(f"tensor {name}: safetensors has no {tensor.dtype}")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")
    return _NAMES[tensor.dtype], tuple(tensor.shape), data
