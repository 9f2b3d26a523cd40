"""The trained drafters as the repository carries them: packed, in parts, and written out as plain checkpoint folders for a test.

A packed drafter is a safetensors file, compressed with xz and cut into parts below 4 MiB (``assets/drafter-b.xz.0``, ``.1`` ...). In it a
linear weight W [out, in] is int8 ``W`` = round(W / scale) within -63 ... 63 and float32 ``W.scale`` [out] = max|row| / 63; everything else
(norms bfloat16, d2t int64, t2d bool) is stored as it was. Unpacking multiplies in float32 and rounds to bfloat16, which is the same bits
everywhere, so that the contracts can list the digest of the unpacked file.

63 levels and not 127: one bit less a weight makes 5.7 MB of 6.7 a drafter, at no measurable loss (README.md).
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load, save
from torch import Tensor

from contract.files.dtypes import DTYPE_BITS
from contract.files.torch_tensors import TORCH_DTYPES
from contract.files.writing import write_safetensors

HERE: Final = Path(__file__).parent
ASSETS: Final = HERE / "assets"
CONTRACTS: Final = HERE / "contracts"
DRAFTERS: Final = {"a": (2, 15, 27), "b": (0, 2, 15)}
"""The boundaries that each drafter was trained on."""
STORED: Final = (0, 2, 15, 27)
"""The boundaries that the samples store."""
LEVELS: Final = 63
SCALE: Final = ".scale"
PART_BYTES: Final = 3_900_000
# Quantised weights have no structure but their distribution, so that contexts of neighbouring bytes only cost.
_XZ: Final = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]
_CODES: Final = {dtype: code for code, dtype in TORCH_DTYPES.items() if DTYPE_BITS[code] >= 8}


def pack(tensors: Mapping[str, Tensor]) -> list[bytes]:
    """The parts of a packed drafter."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim != 2:
            packed[name] = tensor
            continue
        weight_OI = tensor.float()
        scale_O = weight_OI.abs().amax(1) / LEVELS
        packed[name] = (weight_OI / scale_O[:, None]).round().to(torch.int8)
        packed[name + SCALE] = scale_O
    data = lzma.compress(save(packed), format=lzma.FORMAT_XZ, filters=_XZ)
    return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]


def unpack(parts: list[bytes]) -> dict[str, Tensor]:
    """The tensors of a drafter, linear weights in bfloat16."""
    packed = load(lzma.decompress(b"".join(parts)))
    return {
        name: (tensor.float() * packed[name + SCALE][:, None]).bfloat16() if name + SCALE in packed else tensor
        for name, tensor in packed.items()
        if not name.endswith(SCALE)
    }


def parts_of(drafter: str) -> list[bytes]:
    """The committed parts of drafter ``a`` or ``b``."""
    files = sorted(ASSETS.glob(f"drafter-{drafter}.xz.*"))
    if not files:
        raise FileNotFoundError(f"no parts of drafter {drafter} in {ASSETS}")
    return [file.read_bytes() for file in files]


def write_model(tensors: Mapping[str, Tensor], file: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a checkpoint, its tensors by name: the same bytes for the same tensors."""
    encoded = {
        name: (_CODES[t.dtype], list(t.shape), t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        for name, t in sorted(tensors.items())
    }
    write_safetensors(file, encoded, {"format": "pt"} if metadata is None else dict(metadata))


def write_pair(drafter: str, folder: Path) -> Path:
    """Write the drafter with its golden rows, its samples and its contract into a new folder, and return the contract.

    The golden rows have a folder of their own: engines load every safetensors file beside config.json, and vLLM refuses unknown tensors.
    """
    folder.mkdir(parents=True)
    write_model(unpack(parts_of(drafter)), folder / "model.safetensors")
    shutil.copyfile(ASSETS / f"drafter-{drafter}.config.json", folder / "config.json")
    (folder / "golden").mkdir()
    shutil.copyfile(ASSETS / f"golden-{drafter}.safetensors", folder / "golden" / "rows.safetensors")
    shutil.copytree(ASSETS / "samples", folder / "samples")
    return Path(shutil.copyfile(CONTRACTS / f"drafter-{drafter}.yaml", folder / "contract.yaml"))


@dataclass(frozen=True)
class Text:
    """A prompt and the target's greedy answer to it: token ids, and how many of them are the prompt."""

    id: str
    input_ids: list[int]
    prompt_tokens: int


def texts() -> list[Text]:
    """The five committed texts."""
    return [Text(**json.loads(line)) for line in (ASSETS / "texts.jsonl").read_text(encoding="utf-8").splitlines()]
