"""The pre-commit hooks: their manifest, the files that they look at, and pre-commit itself running them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from factory import pair
from pre_commit.clientlib import load_manifest

from contract.cli.hook import contracts_of
from contract.cli.main import main

from .conftest import ROOT, Workspace

MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS = {hook["id"]: hook for hook in load_manifest(str(MANIFEST))}


def test_the_manifest() -> None:
    assert set(HOOKS) == {"contract-check", "contract-check-all-contracts"}
    assert all(hook["language"] == "python" and hook["entry"] == "contract hook" for hook in HOOKS.values())


@pytest.mark.parametrize(
    ("name", "looked_at"),
    [
        ("contract.yaml", True),
        ("a/contract.yml", True),
        ("a/contract.waivers.yaml", True),
        ("a/config.json", True),
        ("a/model-00001-of-00002.safetensors", True),
        ("a/model.safetensors.index.json", True),
        ("a/mycontract.yaml", False),
        ("a/generation_config.json", False),
        ("a/README.md", False),
    ],
)
def test_the_files_that_are_looked_at(name: str, looked_at: bool) -> None:
    assert bool(re.search(HOOKS["contract-check"]["files"], name)) is looked_at


def test_the_contracts_of_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/contract.yaml", "a/config.json", "b/config.json", "c/x.contract.yaml", "c/x.contract.waivers.yaml", "d/contract.yml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    changed = ["a/config.json", "a/model.safetensors", "a/contract.waivers.yaml", "b/config.json", "c/x.contract.waivers.yaml"]
    assert contracts_of([*changed, "d/config.json", "a/gone.yaml"]) == ["a/contract.yaml", "c/x.contract.yaml", "d/contract.yml"]


def test_the_worst_contract_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)
    pair().write(tmp_path / "good")
    pair(ids=(2, 4, 5)).write(tmp_path / "bad")
    Path("broken.contract.yaml").write_text("kind: [")
    engine = ("--engine", "sglang==0.5.23")
    assert main(["hook", *engine, "good/config.json"]) == 0
    assert main(["hook", *engine, "good/contract.yaml", "bad/config.json"]) == 1
    assert main(["hook", *engine, "good/contract.yaml", "bad/config.json", "broken.contract.yaml"]) == 2
    assert main(["hook", *engine, "elsewhere/config.json"]) == 0
    assert main(["hook"]) == 0
    assert "reading.boundaries" in capfd.readouterr().out


def test_pre_commit_runs_it(workspace: Workspace) -> None:
    hook = {**yaml.safe_load(MANIFEST.read_text())[0], "language": "system", "args": ["--engine", "sglang==0.5.23"]}
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (workspace.root / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run = f"'{sys.executable}' -m pre_commit run --all-files --color never"
    environ = {"PRE_COMMIT_HOME": str(workspace.root.parent / "cache")}
    ran = workspace.run(f"git init -q . && git add . && {run}", environ)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"contract of changed drafters\.+Passed", ran.stdout), "and it was not skipped for want of files"
    workspace.miswire()
    ran = workspace.run(f"git add . && {run}", environ)
    assert ran.returncode == 1
    assert "FAILED reading.boundaries" in ran.stdout
