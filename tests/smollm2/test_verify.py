"""The main job on a real model: the pair is kept, the incident's swap is not, the trainer's golden rows find a flipped switch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from verify.scenario import dump, failed

from contract.findings import ExitCode, Status
from smollm2.assets import DRAFTERS
from smollm2.running import contract_line, verified

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("drafter", ["a", "b"])
def test_captured_pair_is_kept(drafter: str, contracts: dict[str, Path], target_dir: Path, tmp_path: Path) -> None:
    spec, bundle = contracts[drafter], tmp_path / "bundle"
    code, said = contract_line(
        "capture", spec, "--engine", "transformers", "--target", target_dir, "--samples", spec.parent / "samples", "-o", bundle,
        out=tmp_path / "capture.json",
    )  # fmt: skip
    assert code == 0, said
    assert (said["requests"], said["tokens"], said["recipe_fed"]) == (2, 256, list(DRAFTERS[drafter]))
    code, report = contract_line("verify", spec, "--capture", bundle, "--target", target_dir, out=tmp_path / "verify.json")
    assert (code, report["verdict"]) == (0, "kept"), [c for c in report["checks"] if c["status"] != "passed"]
    passed = {c["rule"] for c in report["checks"] if c["status"] == "passed"}
    wanted = {
        "states.recipe",
        "states.slot",
        "paths.logits",
        "golden.logits",
        "golden.produced-by",
        "accuracy.claim",
        "acceptance.inference",
    }
    assert wanted <= passed
    training, inference = report["measurements"]["training_path"], report["measurements"]["inference_path"]
    assert training["accepted_drafts"] > 20
    assert inference["accepted_length"] == pytest.approx(training["accepted_length"], abs=0.1)


def test_engine_that_runs_now_is_kept(contracts: dict[str, Path], target_dir: Path, tmp_path: Path) -> None:
    code, report = contract_line("verify", contracts["b"], "--engine", "transformers", "--target", target_dir, out=tmp_path / "verify.json")
    assert (code, report["verdict"]) == (0, "kept"), [c for c in report["checks"] if c["status"] != "passed"]


def test_the_incident(contracts: dict[str, Path], target_dir: Path, tmp_path: Path) -> None:
    """Drafter b was trained on [0, 2, 15]; vLLM's V2 runner does not look where its config.json has the ids, and feeds its default."""
    spec, bundle = contracts["b"], tmp_path / "bundle"
    code, said = contract_line(
        "capture", spec, "--engine", "transformers", "--imitate", "vllm[v2]==0.32.0", "--target", target_dir,
        "--samples", spec.parent / "samples", "-o", bundle, out=tmp_path / "capture.json",
    )  # fmt: skip
    assert (code, said["recipe_fed"]) == (0, list(DRAFTERS["a"]))
    code, report = contract_line("verify", contracts["b"], "--capture", bundle, "--target", target_dir, out=tmp_path / "verify.json")
    assert (code, report["verdict"]) == (1, "violated")
    (recipe,) = [c for c in report["checks"] if c["rule"] == "states.recipe" and c["status"] == "failed"]
    assert (recipe["expected"], recipe["actual"]) == ([0, 2, 15], [2, 15, 27])
    for words in ("[0, 2, 15]", "[2, 15, 27]", "slot 0 carries boundary 2 instead of boundary 0",
                  "slot 1 carries boundary 15 instead of boundary 2", "slot 2 carries boundary 27 instead of boundary 15"):  # fmt: skip
        assert words in recipe["message"]
    assert '"eagle_aux_hidden_state_layer_ids" to [0, 2, 15]' in recipe["fix"]
    slots = [c for c in report["checks"] if c["rule"] == "states.slot" and c["status"] == "failed"]
    assert [c["where"]["slot"] for c in slots] == [0, 1, 2]
    rules = {c["rule"] for c in report["checks"] if c["status"] == "failed"}
    assert {"paths.logits", "accuracy.inference"} <= rules, rules


def test_engine_with_other_numbering(contracts: dict[str, Path], target_dir: Path, tmp_path: Path) -> None:
    """SGLang adds one to the ids of config.json, which are in vLLM's numbering: every slot is a layer late."""
    spec, bundle = contracts["a"], tmp_path / "bundle"
    code, said = contract_line(
        "capture", spec, "--engine", "transformers", "--imitate", "sglang==0.5.23", "--target", target_dir,
        "--samples", spec.parent / "samples", "-o", bundle, out=tmp_path / "capture.json",
    )  # fmt: skip
    assert (code, said["recipe_fed"]) == (0, [3, 16, 28])
    report = verified(spec, target_dir, bundle)
    assert report.exit_code is ExitCode.VIOLATED
    (found,) = [c for c in report.checks if c.rule == "states.off-by-one"]
    assert (found.status, found.expected, found.actual) == (Status.FAILED, [2, 15, 27], [3, 16, 28])
    assert "one layer late" in found.message
    assert "[1, 14, 26]" in str(found.fix)


def test_feedback_flipped_in_the_contract(contracts: dict[str, Path], target_dir: Path, tmp_path: Path) -> None:
    """Step 0 cannot show it; step 1 of the trainer's golden rows does."""
    folder = tmp_path / "drafter"
    shutil.copytree(contracts["b"].parent, folder)
    spec = folder / "contract.yaml"
    text = spec.read_text(encoding="utf-8")
    assert text.count("value: pre_norm") == 1
    spec.write_text(text.replace("value: pre_norm", "value: post_norm"), encoding="utf-8")
    report = verified(spec, target_dir)
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    assert {"golden.logits", "accuracy.claim"} <= failed(report), dump(report)
    steps = {c.where.step: c for c in report.checks if c.rule == "golden.logits" and c.where is not None}
    assert [steps[s].status for s in (0, 1, 2)] == [Status.PASSED, Status.FAILED, Status.FAILED]
    assert steps[1].evidence["max_error"] > 1.0
    claims = [c.status for c in report.checks if c.rule == "accuracy.claim"]
    assert claims == [Status.PASSED, Status.FAILED, Status.FAILED]
