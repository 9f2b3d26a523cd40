"""A wiring that differs is found however noisy the capture is: both wirings run on the states that were fed."""

from __future__ import annotations

from pathlib import Path

import torch
from factory import tiny
from torch import Tensor

from contract.files.bundle import open_bundle
from contract.files.bundle_manifest import ImitatedEngine
from contract.files.bundle_tensors import entries
from contract.files.bundle_writer import BundleWriter
from contract.files.torch_tensors import load_tensor
from contract.findings import Status
from eagle3_contract.model.wiring import Rope
from verify.scenario import Scenario, build, dump


def noisy_capture(bundle: Path, out: Path, engine: ImitatedEngine) -> Path:
    """The same capture as another engine's, with float32 noise on what was fed."""
    found = open_bundle(bundle)
    m = found.manifest
    generator = torch.Generator().manual_seed(1)
    with BundleWriter(
        out, kind=m.kind, engine=m.engine, target=m.target, recipe_fed=m.recipe_fed, layers=m.layers, drafter=None, imitates=engine
    ) as writer:
        for request in found.requests:
            tensors: dict[str, Tensor] = {name: load_tensor(ref) for name, ref in request.tensors.items()}
            for name in [n for n in tensors if n.startswith("slot.")]:
                tensors[name] = tensors[name] * (1 + 1e-6 * torch.randn(tensors[name].shape, generator=generator))
            writer.add(request.id, entries(tensors), sample=request.sample)
    return out


def test_feedback_that_the_engine_reads_otherwise(tmp_path: Path, target_dir: Path) -> None:
    """config.json says norm_output, so SGLang feeds the normed state back; training did not. Step 0 is equal, step 1 is not."""
    long = tiny(rope=Rope(theta=10000.0, table_length=4096, rotary_dim=12))  # SGLang refuses a drafter shorter than its target
    pair: Scenario = build(tmp_path / "pair", target_dir, recipe=(2, 4, 5), wiring=long)
    config = pair.folder / "config.json"
    config.write_text(config.read_text().replace("{", '{"norm_output": true, ', 1))
    captured = pair.capture((2, 4, 5))
    bundle = noisy_capture(captured, tmp_path / "noisy", ImitatedEngine(name="sglang", version="0.5.23", runner=None))
    report = pair.verify(bundle)
    found = {c.where.step: c.status for c in report.checks if c.rule == "paths.wiring" and c.where is not None}
    assert found, dump(report)
    assert (found[0], found[1]) == (Status.PASSED, Status.FAILED), dump(report)


def test_same_wiring_has_nothing_to_compare(clean: Scenario, right: Path) -> None:
    assert "paths.wiring" not in {c.rule for c in clean.verify(right).checks}
