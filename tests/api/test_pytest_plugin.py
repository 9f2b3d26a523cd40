"""The pytest fixtures, in a pytest of their own that finds them by the entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from factory import pair

TESTS = """
def test_kept(contract_check):
    assert contract_check("good/contract.yaml", engines=["sglang==0.5.23"]).verdict == "kept"

def test_violated(contract_check):
    contract_check("bad/contract.yaml", engines=["sglang==0.5.23"])

def test_unknown(contract_verify):
    contract_verify("good/contract.yaml", device="cpu")

def test_unusable(contract_check):
    contract_check("absent.yaml")
"""


def test_the_fixtures(tmp_path: Path) -> None:
    pair().write(tmp_path / "good")
    pair(ids=(2, 4, 5)).write(tmp_path / "bad")
    (tmp_path / "test_drafter.py").write_text(TESTS)
    line = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "-rfE",
        "test_drafter.py",
    ]
    environ = {**os.environ, "CONTRACT_POLICY": ""}
    ran = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert "3 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "FAILED reading.boundaries" in ran.stdout
    assert "UNKNOWN (exit 3)" in ran.stdout
    assert "absent.yaml cannot be read" in ran.stdout


def test_the_plugin_costs_other_suites_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("import sys\ndef test():\n    assert not {'yaml', 'msgspec', 'torch'} & set(sys.modules)\n")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "test_x.py"]
    ran = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stdout
