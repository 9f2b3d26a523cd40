"""The scripts that make the demo pair give the same bytes twice: a short run of all of them, two times from nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def make_pair(out: Path, hash_seed: str) -> dict[str, str]:
    """Runs everything at the tiny scale and returns the sha256 of each file that would ship."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tools.demo_pair", "--out", str(out), "--scale", "tiny"]
    finished = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    files = sorted(path for path in (out / "data").rglob("*") if path.is_file())
    return {path.relative_to(out / "data").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first = make_pair(tmp_path / "first", "1")
    second = make_pair(tmp_path / "second", "2")
    assert first == second
    weights = {name: digest for name, digest in first.items() if name.endswith("model.safetensors")}
    assert set(weights) == {"drafter-a/model.safetensors", "drafter-b/model.safetensors"}
    assert len(set(weights.values())) == 2
    # The record's digests are of the files beside it, so a copy that was changed later is found.
    recorded = json.loads((tmp_path / "first" / "data" / "training.json").read_text(encoding="utf-8"))["files"]
    later = ("training.json", "contract.yaml", "golden.safetensors")
    assert recorded == {name: f"sha256:{digest}" for name, digest in first.items() if not name.endswith(later)}
    contracts = [name for name in first if name.endswith("contract.yaml")]
    assert contracts == ["drafter-a/contract.yaml", "drafter-b/contract.yaml"]
