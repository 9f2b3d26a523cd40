"""A request, and the bundle that is made of the spools that hold it: for the tests of the assembly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recording import RECIPE

from contract.files.bundle import Bundle, BundleRequest, open_bundle
from contract.files.bundle_manifest import ModelInfo
from contract.files.torch_tensors import load_tensor
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.engines.assemble import assemble
from eagle3_contract.engines.spool_read import open_spool

TARGET = ModelInfo(id="tiny", model_type="llama", files={})
PROMPT = [11, 12, 13, 14, 15, 16, 17]
OUTPUT = [21, 22, 23, 24, 25, 26, 27, 28]
ACCEPTED = [2, 0, 1, 0]  # 1 + 3 + 1 + 2 + 1 = 8 tokens


def bundle_of(*folders: Path, limits: Limits = DEFAULT_LIMITS, recipe: Sequence[int] = RECIPE, **more: object) -> Bundle:
    spools = [open_spool(f, limits=limits) for f in folders]
    out = folders[0].parent / "bundle"
    return open_bundle(assemble(spools, out, recipe=tuple(recipe), target=TARGET, drafter=None, limits=limits, **more))  # type: ignore[arg-type]


def ids(request: BundleRequest, name: str = "input_ids") -> list[int]:
    found: list[int] = load_tensor(request.tensors[name]).tolist()
    return found
