"""No tensor of a forward is made on the CPU, and none is left there, where the device is another one (tests/drafter/pretended.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .pretended import BODIES, DTYPES, NAME, WIRINGS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.drafter.pretended"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    said: dict[str, str] = json.loads(done.stdout)
    assert len(said) == len(BODIES) * len(WIRINGS) * len(DTYPES)
    return said


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("body", ["whole", "cached"])
def test_everything_stays_on_the_device(body: str, wiring: str, dtype: str, found: dict[str, str]) -> None:
    assert found[f"{body} {wiring} {dtype}"] == "fine"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_weight_that_stays_on_the_cpu_is_found(wiring: str, dtype: str, found: dict[str, str]) -> None:
    said = found[f"forgetful {wiring} {dtype}"]
    assert said.startswith("FakeTensorDeviceMismatchError")
    assert f"{NAME}:0" in said
