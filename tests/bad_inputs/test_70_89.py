"""What the list names beyond files, where no other folder tests it by number. The rest is in ``table.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from factory import pair

from contract.cli.main import main
from contract.errors import InputRejected
from contract.files.bundle import open_bundle
from contract.files.bundle_manifest import EngineInfo, ModelInfo
from contract.files.bundle_writer import BundleWriter
from contract.numerics.statistics import compare
from contract.structs import SpecInvalid
from contract.waivers import load_waivers
from eagle3_contract.check.run import check_spec
from eagle3_contract.rules import ALL_RULES

ENGINE = EngineInfo(name="x", version="1", runner=None, mode="eager", flags={}, device="cpu", dtype="float32", tp=1, pp=1, layer_ids=None)


def write_bundle(folder: Path, *, tokens: dict[str, int], slot_rows: int | None = None) -> Path:
    """A bundle with one slot of width 4 in each request."""
    with BundleWriter(
        folder, kind="eagle3", engine=ENGINE, target=ModelInfo(id=None, model_type=None, files={}), recipe_fed=(0,), layers=1
    ) as out:
        for name, count in tokens.items():
            ids = ("I64", (count,), np.arange(count, dtype="<i8").tobytes())
            rows = count if slot_rows is None else slot_rows
            out.add(name, {"input_ids": ids, "position_ids": ids, "slot.0": ("F32", (rows, 4), bytes(16 * rows))})
    return folder


def test_67_a_pattern_in_a_waiver_is_no_regex(tmp_path: Path) -> None:
    file = tmp_path / "contract.waivers.yaml"
    waiver = {"rule": "(a+)+$", "reason": "a reason long enough to be one", "expires": "2099-01-01", "scope": {}}
    file.write_text(json.dumps({"schema_version": 1, "waivers": [waiver]}))
    with pytest.raises(SpecInvalid) as caught:
        load_waivers(file, rules={rule.id: rule for rule in ALL_RULES})
    assert any(c.where is not None and "rule" in str(c.where.key) for c in caught.value.problems)


@pytest.mark.parametrize("engine", ["vllm==0.32.0", "nobody"])
def test_83_an_engine_that_is_not_here(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = pair().write(tmp_path / "drafter")
    (tmp_path / "prompts.txt").write_text("a prompt\n")
    line = ["capture", str(spec), "--engine", engine, "--target", str(tmp_path), "--prompts", str(tmp_path / "prompts.txt")]
    assert main([*line, "-o", str(tmp_path / "bundle")]) == 2
    assert "fix: " in capsys.readouterr().err
    assert not (tmp_path / "bundle").exists()


def test_84_fewer_rows_than_tokens(tmp_path: Path) -> None:
    with pytest.raises(InputRejected, match=r"slot\.0"):
        write_bundle(tmp_path / "b", tokens={"a": 3}, slot_rows=2)
    assert not (tmp_path / "b" / "manifest.json").exists()


def test_86_requests_are_told_by_id_and_not_by_order(tmp_path: Path) -> None:
    one = open_bundle(write_bundle(tmp_path / "one", tokens={"a": 3, "b": 5}))
    other = open_bundle(write_bundle(tmp_path / "other", tokens={"b": 5, "a": 3}))
    assert {r.id: r.tokens for r in one.requests} == {r.id: r.tokens for r in other.requests}
    manifest = tmp_path / "other" / "manifest.json"
    tree = json.loads(manifest.read_text())
    tree["requests"][1]["id"] = tree["requests"][0]["id"]
    manifest.write_text(json.dumps(tree))
    with pytest.raises(InputRejected, match="id"):
        open_bundle(tmp_path / "other")


def test_87_nan_on_both_sides(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, float("nan")], [1.0, 2.0]])
    found = compare(x, x.clone())
    assert (found.identical, found.nonfinite_a, found.relative_l2, found.rows.error.tolist()) == (
        False,
        1,
        float("inf"),
        [float("inf"), 0.0],
    )
    assert compare(x[1:], x[1:].clone()).identical


def test_89_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    spec = pair().write(tmp_path / "drafter")
    clean = int(check_spec(spec).exit_code)
    assert clean == 0
    ran = subprocess.run(
        [sys.executable, "-m", "contract", "check", str(spec), "--format", "json=/proc/report.json"], capture_output=True, cwd=tmp_path
    )
    assert ran.returncode == 2
    assert b"files.write-failed" in ran.stderr
    assert b"Traceback" not in ran.stderr
