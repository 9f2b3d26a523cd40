"""Every benchmark runs, at a tiny scale. What it measures is not looked at."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HOME = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(p.stem for p in HOME.glob("*.py") if "raise SystemExit" in p.read_text(encoding="utf-8"))


@pytest.fixture
def _beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script's own folder is first on its path."""
    monkeypatch.syspath_prepend(str(HOME))
    for name in [*SCRIPTS, "measure", "big_checkpoint"]:
        monkeypatch.delitem(sys.modules, name, raising=False)


def script(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.usefixtures("_beside_the_scripts")
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = script(name)
    measure = script("measure")
    assert measure.main(module.TITLE, module.run, ["--scale", "tiny", "--runs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scale"] == "tiny"
    assert found["bounds"]
    assert all(b["met"] is None and b["value"] >= 0 for b in found["bounds"])


@pytest.mark.usefixtures("_beside_the_scripts")
def test_a_bound_that_is_missed_is_told_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    measure = script("measure")

    def body(outcome: Any, options: object) -> None:
        outcome.bound("ours / theirs", 2.0, 1.5)
        outcome.bound("speedup", 2.0, 1.5, at_most=False)

    assert measure.main("a title", body, []) == 1
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.splitlines()[1:3]] == ["FAIL", "PASS"]
    assert measure.paired([2.0, 4.0, 9.0], [1.0, 2.0, 3.0]) == 2.0
    assert measure.interleaved({"a": lambda: None}, 3).keys() == {"a"}
