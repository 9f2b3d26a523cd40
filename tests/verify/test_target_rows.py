"""Another target of the same shapes: found by the samples' first states where the fingerprint is unknown, and by a capture's digests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file, save_file

from contract import Report, Status, verify
from verify.scenario import Scenario

DEMO = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"
RULE = "samples.embedding-rows"


@pytest.fixture(scope="module")
def other_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's target with other embedding rows."""
    folder = tmp_path_factory.mktemp("other") / "target"
    shutil.copytree(DEMO / "target", folder)
    for file in folder.glob("model-*.safetensors"):
        tensors = load_file(file)
        if "model.embed_tokens.weight" in tensors:
            tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].roll(1, 0).contiguous()
            save_file(tensors, file, metadata={"format": "pt"})
    return folder


def spec_with(tmp_path: Path, name: str = "drafter-a", **target: object) -> Path:
    """The demo's drafter; a (whose recipe begins with boundary 0) unless said otherwise."""
    folder = tmp_path / name
    shutil.copytree(DEMO / name, folder)
    tree = yaml.safe_load((folder / "contract.yaml").read_text())
    tree["target"] |= target
    (folder / "contract.yaml").write_text(yaml.safe_dump(tree))
    return folder / "contract.yaml"


def told(report: Report) -> list[Status]:
    return [c.status for c in report.checks if c.rule == RULE]


def recipe(name: str) -> list[int]:
    boundaries: list[int] = yaml.safe_load((DEMO / name / "contract.yaml").read_text())["hidden_states"]["boundaries"]
    return boundaries


@pytest.mark.parametrize("name", ["drafter-a", "drafter-b"])
def test_where_the_fingerprint_is_unknown_the_samples_decide(name: str, tmp_path: Path, other_target: Path) -> None:
    spec = spec_with(tmp_path, name, fingerprint={"unknown": "nobody took it"})
    holds = 0 in recipe(name)
    right, wrong = (verify(spec, target=t, device="cpu") for t in (DEMO / "target", other_target))
    assert told(right) == ([Status.PASSED] if holds else [])
    assert told(wrong) == ([Status.FAILED] if holds else [])
    if holds:
        assert int(wrong.exit_code) == 1
        (failed,) = [c for c in wrong.checks if c.rule == RULE]
        assert failed.where is not None
        assert failed.where.row == 0


def test_one_of_the_two_recipes_begins_with_the_embedding() -> None:
    assert [0 in recipe(name) for name in ("drafter-a", "drafter-b")].count(True) >= 1


def test_where_it_is_known_it_decides_alone(tmp_path: Path, other_target: Path) -> None:
    report = verify(spec_with(tmp_path), target=other_target, device="cpu")
    assert told(report) == []
    assert [c.status for c in report.checks if c.rule == "target.fingerprint"] == [Status.FAILED]


def test_a_family_whose_scale_is_not_known_is_not_judged(tmp_path: Path) -> None:
    spec = spec_with(tmp_path, fingerprint={"unknown": "nobody took it"}, model_type={"unknown": "nobody said"})
    report = verify(spec, target=DEMO / "target", device="cpu")
    found = [c for c in report.checks if c.rule == RULE]
    assert [(c.status, c.required) for c in found] == [(Status.UNKNOWN, False)] * (0 in recipe("drafter-a"))


@pytest.mark.parametrize("change", ["nothing", "config", "weights", "gone"])
def test_the_files_of_the_capture(change: str, clean: Scenario, right: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(clean.target_dir, target)
    if change == "weights":
        (file,) = target.glob("*.safetensors")
        tensors = load_file(file)
        save_file({name: value + 1 if "norm" in name else value for name, value in tensors.items()}, file, metadata={"format": "pt"})
    if change == "config":
        (target / "config.json").write_text((target / "config.json").read_text() + "\n")
    if change == "gone":
        for name in [p.name for p in target.iterdir() if p.name not in ("config.json", "model.safetensors")]:
            (target / name).unlink()
    report = verify(clean.spec, capture=right, target=target, device="cpu")
    found = [c for c in report.checks if c.rule == "capture.target-files"]
    assert [c.status for c in found] == [Status.PASSED if change in ("nothing", "gone") else Status.FAILED]
    if found[0].status is Status.FAILED:
        assert found[0].where is not None
        assert found[0].where.file == ("model.safetensors" if change == "weights" else "config.json")
        assert int(report.exit_code) == 1


def test_without_a_target_nothing_is_said(clean: Scenario, right: Path) -> None:
    report = verify(clean.spec, capture=right, device="cpu")
    assert not [c for c in report.checks if c.rule == "capture.target-files"]
