"""Writing safetensors files, without torch: for exports, bundles and synthetic checkpoints."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from contract.errors import InternalError
from contract.files.atomic import atomic_writer
from contract.files.dtypes import DTYPE_BITS

Buffer: TypeAlias = bytes | bytearray | memoryview
ALIGNMENT = 8


def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor. Raises InternalError for a dtype the format does not define, or elements that do not fill a byte."""
    if dtype not in DTYPE_BITS:
        raise InternalError(f"{dtype!r} is no safetensors dtype")
    whole, rest = divmod(math.prod(shape) * DTYPE_BITS[dtype], 8)
    if rest:
        raise InternalError(f"shape {list(shape)} of {dtype} does not fill whole bytes")
    return whole


def encode_header(tensors: Mapping[str, tuple[str, Sequence[int]]], metadata: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """Length, header and padding for tensors (name to dtype and shape) stored in the order of the map; and their data's bytes."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        end = at + tensor_bytes(dtype, shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, at


def write_safetensors(
    path: str | Path, tensors: Mapping[str, tuple[str, Sequence[int], Buffer]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file atomically: name to (dtype, shape, little-endian bytes), in the order of the map.

    Raises:
        InternalError: bytes, shape and dtype do not agree.
        InputRejected: ``files.write-failed``.
    """
    head, _ = encode_header({name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()}, metadata)
    for name, (dtype, shape, data) in tensors.items():
        if memoryview(data).nbytes != tensor_bytes(dtype, shape):
            raise InternalError(f"tensor {name}: {memoryview(data).nbytes} bytes do not fit {dtype} {list(shape)}")
    with atomic_writer(path) as file:
        file.write(head)
        for _, _, data in tensors.values():
            file.write(data)


def write_sparse_safetensors(
    path: str | Path, tensors: Mapping[str, tuple[str, Sequence[int]]], metadata: Mapping[str, str] | None = None
) -> int:
    """Write a header and a hole of zeros where the data would be, for tests at real size; returns the apparent size."""
    head, size = encode_header(tensors, metadata)
    with atomic_writer(path) as file:
        file.write(head)
        file.flush()
        os.truncate(file.fileno(), len(head) + size)
    return len(head) + size
