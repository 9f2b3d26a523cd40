"""A real training step of the real speculators, stamped by its own run, and verified here from the stamp."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.findings import ExitCode, Status
from contract.reporting import Report
from contract.requests import InitRequest, VerifyRequest
from eagle3_contract.init.run import init
from eagle3_contract.stamp.read import Stamp, read_stamp
from eagle3_contract.verify.run import verify

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-speculators" / "bin" / "python"
STAMP = ROOT / "eagle3_contract" / "stamp" / "contract_stamp.py"
STEPS = 3

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``drafter`` and ``target``, written by speculators."""
    out = tmp_path_factory.mktemp("speculators")
    assert PYTHON.exists(), f"{PYTHON} is missing; `make test-slow` installs it"
    script = Path(__file__).with_name("speculators_step.py")
    # Outside of the repository and with no PYTHONPATH: the trainer must not find this project.
    quiet = {"PATH": os.environ["PATH"], "HOME": str(out), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([PYTHON, "-I", script, out, STAMP], cwd=out, capture_output=True, text=True, env=quiet, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def stamp(trained: Path) -> Stamp:
    found = read_stamp(trained / "drafter")
    assert found is not None
    return found


def contract(trained: Path, stamp: Stamp, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Path:
    """The contract that `init` writes with the stamp's declarations as answers, with the trainer's golden rows in it."""
    spec = trained / "drafter" / "contract.yaml"
    spec.unlink(missing_ok=True)
    settings = {
        path: yaml.safe_dump(fact.value, default_flow_style=True).removesuffix("...\n").strip() for path, fact in stamp.facts.items()
    }
    report = init(InitRequest(drafter=str(trained / "drafter"), target=str(trained / "target"), settings=settings, out=str(spec)))
    assert report.exit_code is ExitCode.KEPT, [c.message for c in report.checks if c.status is not Status.PASSED]
    tree = yaml.safe_load(spec.read_text())
    tree["golden"] = {"file": stamp.golden, "produced_by": stamp.produced_by}
    change(tree)
    spec.write_text(yaml.safe_dump(tree, sort_keys=False))
    return spec


def golden(report: Report) -> dict[str, Status]:
    return {
        f"{c.rule} {c.message.split()[2]} {c.where.step}": c.status
        for c in report.checks
        if c.rule.startswith("golden.") and c.where and c.where.step is not None
    }


def test_the_stamp_says_what_the_files_say(trained: Path, stamp: Stamp) -> None:
    assert stamp.golden == "golden/golden.safetensors"
    assert {c.status for c in stamp.checks} == {Status.PASSED}
    assert stamp.facts["hidden_states.boundaries"].value == [2, 4, 5]
    assert stamp.facts["training.version"].value == "0.9.0"
    assert {fact.evidence for fact in stamp.facts.values()} == {"declared"}


def test_the_trainers_own_rows_are_kept(trained: Path, stamp: Stamp) -> None:
    report = verify(VerifyRequest(spec=str(contract(trained, stamp)), device="cpu"))
    found = golden(report)
    assert len(found) == 2 * STEPS + 1
    assert set(found.values()) == {Status.PASSED}, [c.message for c in report.checks if c.status is Status.FAILED]
    assert [c.status for c in report.checks if c.rule == "golden.produced-by"] == [Status.PASSED]


@pytest.mark.parametrize(
    ("path", "value", "first"),
    [
        ("norm_before_residual", False, 0),
        ("norms_before_fc", [], 0),
        ("feedback", "pre_norm", 1),
        ("double_norm", True, 0),
        ("concat_order", "hidden_first", 0),
        ("final_norm", False, 0),
    ],
)
def test_a_flipped_switch_misses_them(trained: Path, stamp: Stamp, path: str, value: Any, first: int) -> None:
    def flip(tree: dict[str, Any]) -> None:
        tree["wiring"][path] = value
        if path == "final_norm":
            tree["wiring"]["feedback"] = "pre_norm"

    found = golden(verify(VerifyRequest(spec=str(contract(trained, stamp, flip)), device="cpu")))
    assert [found[f"golden.logits logits {s}"] for s in range(first)] == [Status.PASSED] * first
    assert found[f"golden.logits logits {first}"] is Status.FAILED
