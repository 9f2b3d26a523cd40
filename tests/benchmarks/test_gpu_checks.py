"""The script for a GPU runs on the CPU, and would find what is wrong."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from contract.findings import ExitCode
from eagle3_contract.drafter.drafter import Drafter

HOME = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(HOME))
    monkeypatch.delitem(sys.modules, "gpu_checks", raising=False)
    return importlib.import_module("gpu_checks")


def ran(checks: ModuleType, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = checks.main(["--device", "cpu", "--scale", "tiny", "--json", *arguments])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


def test_everything_is_right_on_the_cpu(checks: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = ran(checks, capsys)
    assert code == 0, [r for r in found["checks"] if not r["right"]]
    assert found["wrong"] == []
    assert len(found["checks"]) == 12
    assert all(r["right"] is True and r["seconds"] >= 0 and r["peak_mib"] is None for r in found["checks"])
    errors = {
        name: next(r["detail"] for r in found["checks"] if r["name"].endswith(name) and "drafter" in r["name"])
        for name in ("bfloat16", "float16")
    }
    assert "'0'" not in errors["bfloat16"].split("]")[0]  # a narrow dtype does round


def test_a_wrong_forward_is_found(checks: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions of single rows that are one too far: the vectors' rounds tell, and so does the comparison of both modes."""
    run = Drafter.run

    def late(self: Drafter, ids: Any, hidden: Any, positions: Any, attends: Any, *more: Any) -> Any:
        return run(self, ids, hidden, positions + (1 if len(positions) == 1 else 0), attends, *more)

    monkeypatch.setattr(Drafter, "run", late)
    code, found = ran(checks, capsys, "--part", "vectors", "--part", "forward")
    assert code == 1
    assert "conformance vectors, float32" in found["wrong"]
    assert "drafter of width 64, float32" in found["wrong"]


def test_wrong_statistics_are_found(checks: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compare, calls = checks.compare, [0]

    def off(a: Any, b: Any) -> Any:
        calls[0] += 1
        made = compare(a, b)
        return made if calls[0] % 2 else type(made)(**{f: getattr(made, f) for f in made.__slots__} | {"nonfinite_a": 0})

    monkeypatch.setattr(checks, "compare", off)
    code, found = ran(checks, capsys, "--part", "statistics")
    assert code == 1
    assert "differs in ['nonfinite_a']" in found["checks"][0]["detail"]


def test_a_wrong_attribution_is_found(checks: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    attribute_all = checks.attribute_all
    monkeypatch.setattr(checks, "attribute_all", lambda slots, candidates, tolerance: attribute_all(slots, candidates[1:], tolerance))
    assert ran(checks, capsys, "--part", "attribution")[0] == 1


def test_another_verdict_is_found(checks: ModuleType, tmp_path: Path) -> None:
    assert checks._verify("drafter-a", "cpu", ExitCode.VIOLATED)[0] is False
    assert checks._verify("drafter-a", "cpu", ExitCode.KEPT)[0] is True


def test_an_exception_is_a_failed_check_and_the_rest_runs(checks: ModuleType) -> None:
    bench = checks.Bench(torch.device("cpu"), checks.SCALES["tiny"])

    def breaks() -> tuple[bool, str]:
        raise RuntimeError("CUDA out of memory")

    bench.check("one", breaks)
    bench.check("two", lambda: (True, "fine"))
    bench.check("three", lambda: (None, "not here"))
    assert [(r.right, r.detail) for r in bench.results] == [(False, "RuntimeError: CUDA out of memory"), (True, "fine"), (None, "not here")]
    text = list(checks.lines(bench))
    assert [line.split()[0] for line in text[1:]] == ["WRONG", "right", "not"]


@pytest.mark.parametrize("device", ["cuda:99", "gpu"])
def test_without_the_device(checks: ModuleType, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.main(["--device", device, "--scale", "tiny"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "fix: Choose" in said.err
