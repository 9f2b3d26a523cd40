"""Paths that no file can have: every command says so, with a remedy, and exits with 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from factory import pair, write_contract

from contract.cli.hook import contracts_of
from contract.cli.main import main
from contract.errors import InputRejected
from eagle3_contract.init.files import list_files
from eagle3_contract.init.run_files import _files
from eagle3_contract.model.load import load_contract

LONG = ("a" * 300, "a/" * 2500, "loop", "a\0b")
LINES = [
    ("show", "PATH"),
    ("check", "PATH"),
    ("check", "contract.yaml", "--samples", "PATH"),
    ("check", "contract.yaml", "--target", "PATH"),
    ("check", "contract.yaml", "--policy", "PATH"),
    ("verify", "contract.yaml", "--samples", "PATH"),
    ("verify", "contract.yaml", "--capture", "PATH"),
    ("verify", "contract.yaml", "--samples", ".", "--resume", "PATH"),
    ("read", "PATH", "--engine", "sglang==0.5.23"),
    ("init", "PATH"),
    ("init", ".", "--samples", "PATH", "--out", "new.yaml"),
    ("init", ".", "--target", "PATH", "--out", "new.yaml"),
    ("draft", ".", "--inputs", "PATH", "--out", "x"),
    ("export", "contract.yaml", "--engine", "sglang==0.5.23", "--out", "PATH"),
    ("card", "contract.yaml", "--into", "PATH"),
    ("upgrade", "PATH"),
    ("diff", "PATH", "contract.yaml"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)
    pair().write(tmp_path)


@pytest.mark.parametrize("path", LONG, ids=["name", "path", "loop", "nul"])
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_path_that_no_file_can_have(capfd: pytest.CaptureFixture[str], line: tuple[str, ...], path: str) -> None:
    os.symlink("loop", "loop")
    assert main([path if word == "PATH" else word for word in line]) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "tool.internal-error" not in said
    assert ", fix: " in said


def test_the_same_lines_with_paths_that_are_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "contract.yaml", "--engine", "sglang==0.5.23"]) == 0
    assert main(["show", "contract.yaml"]) == 0
    assert main(["read", ".", "--engine", "sglang==0.5.23"]) == 0
    assert "fix:" not in capfd.readouterr().err


def test_a_contract_whose_waivers_could_have_no_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = "c" * 246 + ".yaml"
    Path(tmp_path / "contract.yaml").rename(tmp_path / name)
    assert main(["check", name, "--engine", "sglang==0.5.23"]) == 0
    assert contracts_of([name, "a" * 300 + ".yaml", "a/" * 2500 + "config.json", "/"]) == [name]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("key", ["drafter", "samples"])
def test_a_folder_of_the_contract_that_leads_in_a_circle(tmp_path: Path, key: str) -> None:
    os.symlink("loop", "loop")
    changed = pair()
    (changed.contract["drafter"] if key == "drafter" else changed.contract["training"]["samples"])["path"] = "loop"
    with pytest.raises(InputRejected) as caught:
        load_contract(write_contract(tmp_path / "other.yaml", changed.contract))
    assert caught.value.rule == "contract.path-escape"


@pytest.mark.parametrize("name", ["round.yaml", "data_config.json"])
def test_a_link_in_a_circle_in_the_drafters_folder_is_refused_as_a_link(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    skip = tmp_path / "contract.yaml"
    assert list(_files([tmp_path], skip)) == []
    os.symlink(name, name)
    assert list(_files([tmp_path], skip)) == []
    listed = list_files(tmp_path, ())
    assert "symlink" in str(listed[name])
    assert str(listed["config.json"]).startswith("sha256:")
    assert main(["init", ".", "--out", "one.yaml"]) == 2
    assert "files.symlink" in capfd.readouterr().err
