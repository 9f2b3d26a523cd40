"""Every command that names a drafter, a target or a contract, with repositories of the Hub: the same answer as with the folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from contract.cli.main import main
from hub.server import COMMIT, Hub

DEMO = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"
DRAFTER = f"hf:org/drafter@{COMMIT}"
TARGET = f"hf:org/target@{COMMIT}"
SGLANG = "sglang==0.5.23"


@pytest.fixture(autouse=True)
def _stocked(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DEMO / "drafter-a", tmp_path / "drafter")
    hub.add("org/drafter", DEMO / "drafter-a")
    hub.add("org/target", DEMO / "target")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)


def ran(capfd: pytest.CaptureFixture[str], *line: str) -> tuple[int, Any]:
    code = main([*line, "--format", "json"])
    said = capfd.readouterr()
    assert ".eagle3-contract-" not in said.out + said.err
    return code, json.loads(said.out)


def statuses(report: Any) -> list[tuple[str, str]]:
    return [(c["rule"], c["status"]) for c in report["checks"] if not c["rule"].startswith("hub.")]


def test_verify(capfd: pytest.CaptureFixture[str], hub: Hub) -> None:
    local = ran(capfd, "verify", "drafter/contract.yaml", "--target", str(DEMO / "target"), "--workers", "1")
    code, remote = ran(capfd, "verify", DRAFTER, "--target", TARGET)
    assert (code, statuses(remote)) == (local[0], statuses(local[1]))
    assert code == 0
    reads = {h["input"]: h["read"] for h in remote["provenance"]["hub"]}
    assert reads == {"spec": "files", "target": "ranges"}


def test_show_and_card(capfd: pytest.CaptureFixture[str]) -> None:
    for command, added in (("show", [f"spec: {DRAFTER} is commit {COMMIT}"]), ("card", [])):  # a card is a document
        assert main([command, DRAFTER]) == 0
        remote = capfd.readouterr().out.replace(DRAFTER, "drafter").splitlines()
        assert main([command, "drafter/contract.yaml"]) == 0
        assert remote == [*capfd.readouterr().out.splitlines(), *(line.replace(DRAFTER, "drafter") for line in added)]


def test_draft(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = json.loads((DEMO / "drafter-a" / "config.json").read_text())
    width = load_file(DEMO / "drafter-a" / "model.safetensors")["fc.weight"].shape[1]
    torch.manual_seed(0)
    save_file({"input_ids": torch.arange(9) % config["vocab_size"], "hidden_states": torch.randn(9, width)}, tmp_path / "in.safetensors")
    for drafter, target, out in (("drafter", str(DEMO / "target"), "local"), (DRAFTER, TARGET, "remote")):
        code, _ = ran(capfd, "draft", drafter, "--inputs", "in.safetensors", "--target", target, "--steps", "2", "-o", out)
        assert code == 0
    local, remote = load_file("local"), load_file("remote")
    assert local.keys() == remote.keys()
    assert all(torch.equal(local[name].nan_to_num(7), remote[name].nan_to_num(7)) for name in local)


def test_export(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, report = ran(capfd, "export", DRAFTER, "--engine", SGLANG, "--target", TARGET, "-o", "out")
    assert code == 0, report
    exported = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(value, exported[name]) for name, value in load_file(DEMO / "drafter-a" / "model.safetensors").items())


def test_init(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, report = ran(capfd, "init", DRAFTER, "--target", TARGET, "-o", "new.yaml")
    local_code, local = ran(capfd, "init", "drafter", "--target", str(DEMO / "target"), "-o", "drafter/new.yaml")
    assert code == local_code == 1, "there are open questions"
    written = (tmp_path / "new.yaml").read_text()
    assert "org/target" in written
    assert COMMIT in written
    assert {r for r, s in statuses(report) if s == "failed"} == {r for r, s in statuses(local) if s == "failed"}


def test_capture(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text((DEMO / "prompts.jsonl").read_text().splitlines()[0] + "\n")
    line = (
        "capture",
        DRAFTER,
        "--engine",
        "transformers",
        "--target",
        TARGET,
        "--prompts",
        "prompts.jsonl",
        "--device",
        "cpu",
        "-o",
        "bundle",
    )
    code, answer = ran(capfd, *line)
    assert code == 0, answer
    assert answer["requests"] == 1
    assert [h["read"] for h in answer["hub"]] == ["files", "files"]
