"""The packed drafters are what the contracts list, and the contracts keep at every depth that needs no forward."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from contract.findings import ExitCode
from contract.requests import CheckRequest
from eagle3_contract.check.run import check
from smollm2.assets import ASSETS, LEVELS, pack, unpack

pytestmark = pytest.mark.slow


def test_no_file_is_large() -> None:
    sizes = {f.name: f.stat().st_size for f in ASSETS.rglob("*") if f.is_file()}
    assert max(sizes.values()) < 4 * 2**20
    assert sum(sizes.values()) < 14_000_000


def test_packing_is_exact_but_for_half_a_level() -> None:
    generator = torch.Generator().manual_seed(1)
    weight_OI = torch.randn(48, 64, generator=generator).bfloat16()
    d2t_D = torch.arange(24)
    found = unpack(pack({"fc.weight": weight_OI, "norm.weight": weight_OI[0], "d2t": d2t_D}))
    assert found.keys() == {"fc.weight", "norm.weight", "d2t"}
    assert torch.equal(found["norm.weight"], weight_OI[0])
    assert torch.equal(found["d2t"], d2t_D)
    error_OI = (found["fc.weight"].float() - weight_OI.float()).abs()
    level_O1 = weight_OI.float().abs().amax(1, keepdim=True) / LEVELS
    assert bool((error_OI <= 0.5001 * level_O1 + weight_OI.float().abs() * 2**-7).all())
    assert bool((error_OI > 0).any())


@pytest.mark.parametrize("drafter", ["a", "b"])
def test_contract_is_kept_by_files_values_and_digests(drafter: str, contracts: dict[str, Path], target_dir: Path) -> None:
    report = check(CheckRequest(spec=str(contracts[drafter]), target=str(target_dir), integrity="digests"))
    assert report.exit_code is ExitCode.KEPT, [c for c in report.checks if c.status == "failed" or c.required]


def test_contract_of_the_other_drafter_is_violated(contracts: dict[str, Path], target_dir: Path, tmp_path: Path) -> None:
    """a's contract beside b's files: they differ in nothing but weights and recipe."""
    folder = tmp_path / "drafter"
    shutil.copytree(contracts["b"].parent, folder)
    spec = shutil.copyfile(contracts["a"], folder / "contract.yaml")
    report = check(CheckRequest(spec=str(spec), target=str(target_dir), integrity="digests"))
    assert report.exit_code is ExitCode.VIOLATED
    wrong = {c.where.file for c in report.checks if c.rule == "drafter.digest" and c.status == "failed" and c.where is not None}
    assert len(wrong) >= 1, [c for c in report.checks if c.status == "failed"]
    headers = check(CheckRequest(spec=str(spec), target=str(target_dir), engines=("vllm[v1]==0.32.0",)))
    assert headers.exit_code is ExitCode.VIOLATED
    assert [(c.expected, c.actual) for c in headers.checks if c.rule == "reading.boundaries"] == [([2, 15, 27], [0, 2, 15])]
