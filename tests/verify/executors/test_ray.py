"""The same over a real Ray cluster on this machine, through the command line; and what happens without Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contract.errors import ToolError
from contract.findings import ExitCode
from eagle3_contract.verify.executors import ray as module
from verify.executors.conftest import SAMPLES
from verify.scenario import Scenario


def run(scenario: Scenario, tmp_path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """`contract verify --format json`, from another working directory than the files'."""
    line = [sys.executable, "-m", "contract", "verify", os.path.relpath(scenario.spec, tmp_path), "--target", str(scenario.target_dir)]
    quiet = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": ""}
    ran = subprocess.run([*line, "--format", "json", *more], cwd=tmp_path, capture_output=True, text=True, env=quiet, check=False)
    assert ran.returncode in (0, 1, 3), ran.stdout[-3000:] + ran.stderr[-3000:]
    report: dict[str, Any] = json.loads(ran.stdout)
    return ran.returncode, report


@pytest.mark.slow
def test_a_cluster_counts_bit_for_bit_the_same(many: Scenario, tmp_path: Path) -> None:
    here, alone = run(many, tmp_path, "--workers", "1")
    there, cluster = run(many, tmp_path, "--executor", "ray", "--workers", "2", "--resume", str(tmp_path / "journal"))
    assert cluster["provenance"]["execution"] == {"executor": "ray", "workers": 2, "resumed": 0}
    assert alone["measurements"]["training_path"]["samples"] == SAMPLES
    assert cluster["measurements"] == alone["measurements"]
    assert cluster["checks"] == alone["checks"]
    assert there == here
    _, resumed = run(many, tmp_path, "--workers", "1", "--resume", str(tmp_path / "journal"))
    assert resumed["provenance"]["execution"]["resumed"] == SAMPLES
    assert resumed["measurements"] == alone["measurements"]


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_an_error(many: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def nowhere(**_: Any) -> None:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(ray, "init", nowhere)
    report = many.verify(executor="ray")
    assert report.exit_code is ExitCode.UNUSABLE
    assert [c.rule for c in report.checks if c.rejected] == ["verify.ray-failed"]


def test_without_ray_it_is_said_what_to_install(many: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", absent)
    report = many.verify(executor="ray")
    assert report.exit_code is ExitCode.UNUSABLE
    (check,) = [c for c in report.checks if c.rejected]
    assert check.rule == "verify.ray-missing"
    assert "eagle3-contract[ray]" in str(check.fix)
    assert "training_path" not in report.measurements


class Broken:
    """A cluster whose actors answer with what a test gives."""

    class exceptions:  # noqa: N801 -- named as in ray
        class RayError(Exception):
            pass

    def __init__(self, cores: int, answer: Any) -> None:
        self.cores, self.answer, self.killed, self.down = cores, answer, 0, False

    def is_initialized(self) -> bool:
        return False

    def init(self, **_: Any) -> None: ...

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cores}

    def remote(self, **_: Any) -> Any:
        cluster = self

        class Handle:
            def __init__(self) -> None:
                self.measure = self

            def remote(self, *_: Any) -> Any:
                return self if self.measure is self else None

        class Made:
            @staticmethod
            def remote(plan: Any) -> Any:
                return Handle()

        assert cluster is not None
        return lambda actor: Made

    def get(self, reference: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def kill(self, actor: Any) -> None:
        self.killed += 1

    def shutdown(self) -> None:
        self.down = True


@pytest.mark.parametrize("kind", ["actor died", "plan refused"])
def test_a_cluster_that_fails_is_cleaned_up(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    from contract.findings import check_from_error

    refused = check_from_error(ToolError("no file", rule="files.not-found", fix="Mount it."))
    cluster = Broken(4, Broken.exceptions.RayError("the actor died\nlong trace") if kind == "actor died" else refused)
    monkeypatch.setattr(module, "import_module", lambda name: cluster)
    executor = module.OverRay(None, 2)
    with pytest.raises(ToolError) as caught:
        list(executor.outcomes(["a", "b"]))
    assert caught.value.rule == ("verify.ray-failed" if kind == "actor died" else "files.not-found")
    assert "long trace" not in caught.value.message
    assert (cluster.killed, cluster.down) == (2, True)


def test_a_cluster_without_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "import_module", lambda name: Broken(0, []))
    with pytest.raises(ToolError, match="no core"):
        module.OverRay(None, None)
