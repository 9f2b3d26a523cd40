"""`contract verify` on a bundle with forwards: all three comparisons together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from contract.requests import VerifyRequest
from eagle3_contract.verify.run import verify
from verify.engine_drafter.simulated import simulate, write
from verify.engine_drafter.simulated_engine import DATA, FOLDER, Engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The demo drafter, with a contract that names one sample."""
    copy = tmp_path / "drafter"
    shutil.copytree(FOLDER, copy)
    tree = yaml.safe_load((copy / "contract.yaml").read_text())
    samples = tree["training"]["samples"]
    samples["manifest"] = {n: d for n, d in samples["manifest"].items() if n == "sample-00.safetensors"}
    samples["count"] = 1
    (copy / "contract.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    for path in (copy / "samples").iterdir():
        if path.name != "sample-00.safetensors":
            path.unlink()
    return copy


def exit_code(folder: Path, bundle: Path) -> tuple[int, set[str], dict[str, object]]:
    report = verify(VerifyRequest(spec=str(folder / "contract.yaml"), capture=str(bundle), target=str(DATA / "target"), device="cpu"))
    failed = {c.rule for c in report.checks if c.status == "failed"}
    return int(report.exit_code), failed, report.measurements


def test_a_clean_capture_is_kept(tmp_path: Path, folder: Path) -> None:
    engine = Engine(style="sglang")
    code, failed, measurements = exit_code(folder, write(tmp_path / "bundle", engine, simulate(engine, 1)))
    assert (code, failed) == (0, set())
    assert measurements["engine_drafter"]["rounds"] > 50


def test_a_fault_in_the_engines_loop_violates_the_contract(tmp_path: Path, folder: Path) -> None:
    engine = Engine(style="sglang", fault="normed-feedback")
    code, failed, _ = exit_code(folder, write(tmp_path / "bundle", engine, simulate(engine, 1)))
    assert code == 1
    assert "engine.feedback" in failed
