"""What is missing on either side never gives exit 0; what cannot be read is exit 2 with the failures still there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from contract.findings import ExitCode, Status
from verify.scenario import SAMPLES, Scenario, dump, failed


def test_training_path_alone_is_kept(clean: Scenario) -> None:
    report = clean.verify()
    assert report.exit_code is ExitCode.KEPT, dump(report)


def test_deleted_sample_file(scenario: Scenario) -> None:
    (scenario.samples / SAMPLES[1]).unlink()
    report = scenario.verify()
    assert report.exit_code is ExitCode.VIOLATED
    assert "samples.listed" in failed(report)


def test_sample_deleted_from_the_contract(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"]["samples"]["manifest"].pop(SAMPLES[1]))
    assert "samples.listed" in failed(scenario.verify())


def test_another_folder_of_samples_is_two_findings_however_many_there_are(scenario: Scenario, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for i in range(30):
        shutil.copy(scenario.samples / SAMPLES[0], elsewhere / f"other-{i:02d}.safetensors")
    report = scenario.verify(samples=elsewhere)
    said = [c for c in report.checks if c.rule == "samples.listed"]
    assert [c.status for c in said] == ["failed", "failed"]
    missing, extra = said
    assert isinstance(missing.evidence, dict)
    assert isinstance(extra.evidence, dict)
    assert missing.evidence["missing"] == sorted(SAMPLES)
    assert (extra.expected, extra.actual, len(extra.evidence["not_listed"])) == (len(SAMPLES), 30, 30)
    assert "30 samples are in" in extra.message
    assert extra.message.endswith("other-03.safetensors and 26 more")


def test_changed_sample(scenario: Scenario) -> None:
    shutil.copy(scenario.samples / SAMPLES[0], scenario.samples / SAMPLES[1])
    assert "samples.digest" in failed(scenario.verify())


def test_emptied_samples_folder_is_unknown(scenario: Scenario) -> None:
    for name in SAMPLES:
        (scenario.samples / name).unlink()
    report = scenario.verify()
    assert report.exit_code is ExitCode.UNKNOWN, dump(report)
    elsewhere = scenario.folder.parent / "nothing"
    elsewhere.mkdir()
    assert scenario.verify(samples=elsewhere).exit_code is ExitCode.UNKNOWN


def test_absent_samples_folder_is_unusable(scenario: Scenario) -> None:
    assert scenario.verify(samples=scenario.folder / "absent").exit_code is ExitCode.UNUSABLE


@pytest.mark.parametrize("side", ["checkpoint", "contract"])
@pytest.mark.parametrize("name", ["fc.weight", "layers.0.hidden_norm.weight", "lm_head.weight", "d2t"])
def test_deleted_tensor(scenario: Scenario, side: str, name: str) -> None:
    if side == "contract":
        scenario.rewrite(lambda c: c["tensors"].pop(name))
    else:
        path = scenario.folder / "model.safetensors"
        tensors = load_file(path)
        tensors.pop(name.replace("layers.0.", "midlayer."))
        save_file(tensors, path)
    report = scenario.verify()
    assert report.exit_code is ExitCode.VIOLATED, dump(report)


def test_failure_beside_an_unreadable_file(scenario: Scenario) -> None:
    (scenario.samples / SAMPLES[0]).write_bytes(b"no safetensors")
    scenario.rewrite(lambda c: c["wiring"].update(head_dim=16))
    report = scenario.verify()
    assert report.exit_code is ExitCode.UNUSABLE
    assert failed(report), dump(report)
    assert any(c.rejected for c in report.checks)


def test_unreadable_capture_keeps_the_static_findings(scenario: Scenario, right: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(right, torn)
    (torn / "manifest.json").unlink()
    scenario.rewrite(lambda c: c["wiring"].update(head_dim=16))
    report = scenario.verify(torn)
    assert report.exit_code is ExitCode.UNUSABLE
    assert failed(report)


def test_unknown_statement_is_unknown(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["wiring"].update(feedback={"unknown": "nobody said"}))
    report = scenario.verify()
    assert report.exit_code is ExitCode.UNKNOWN, dump(report)


def test_fail_fast_stops_at_the_first_failure(scenario: Scenario) -> None:
    (scenario.samples / SAMPLES[1]).unlink()
    scenario.rewrite(lambda c: c["wiring"].update(head_dim=16))
    assert len(failed(scenario.verify())) > 1
    report = scenario.verify(fail_fast=True)
    assert [c.status for c in report.checks].count(Status.FAILED) == 1
    assert report.exit_code is ExitCode.VIOLATED


def test_sample_that_stores_other_states(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"]["samples"].update(states=[0, 3, 6]))
    report = scenario.verify()
    assert "samples.layout" in failed(report)


def test_capture_of_another_drafter_or_target(scenario: Scenario, right: Path) -> None:
    scenario.rewrite(lambda c: c["target"].update(layers=12))
    assert "capture.target" in failed(scenario.verify(right, target=False))
    path = scenario.folder / "model.safetensors"
    tensors = load_file(path)
    tensors["fc.weight"][0, 0] += 1
    save_file(tensors, path)
    import hashlib

    digest = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    scenario.rewrite(lambda c: c["drafter"]["files"].update({"model.safetensors": digest}))
    assert "capture.drafter" in failed(scenario.verify(right, target=False))


def test_claimed_accuracy_out_of_reach(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"]["metrics"].update(accuracy=[0.9]))
    report = scenario.verify()
    assert "accuracy.claim" in failed(report), dump(report)
    scenario.rewrite(lambda c: c["training"]["metrics"].update(accuracy=[0.0]))
    assert "accuracy.claim" not in failed(scenario.verify())


def test_claim_without_target_tokens_is_unknown(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"]["metrics"].update(accuracy=[0.5]))
    report = scenario.verify(target=False)
    assert report.exit_code is ExitCode.UNKNOWN, dump(report)


@pytest.mark.parametrize("count", [0, len(SAMPLES)])
def test_capture_or_golden_rows_do_not_stand_in_for_listed_samples(count: int, scenario: Scenario, right: Path) -> None:
    """Emptied, or never committed: what the contract promises and nobody has is unknown, whatever else there is to look at."""
    for name in SAMPLES:
        (scenario.samples / name).unlink()
    assert scenario.verify(right).exit_code is ExitCode.UNKNOWN
    scenario.samples.rmdir()
    scenario.rewrite(lambda c: c["training"]["samples"].update(path=None, count=count, manifest={}))
    assert scenario.verify(right).exit_code is (ExitCode.UNKNOWN if count else ExitCode.KEPT)


def test_last_state_that_the_samples_contradict(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"]["target_state"].update(normed=False))
    assert "samples.layout" in failed(scenario.verify())


def test_golden_rows_of_too_few_steps_are_noticed(scenario: Scenario) -> None:
    from eagle3_contract.verify.golden import write_golden
    from verify.test_golden import oracle_logits

    ids_T, hidden_TC, logits, embedding = oracle_logits(scenario)
    for steps, status in ((1, Status.UNKNOWN), (3, Status.PASSED)):
        write_golden(
            scenario.folder / "golden.safetensors", input_ids_T=ids_T, hidden_states_TC=hidden_TC, logits_steps=logits[:steps],
            embedding_ids_L=ids_T.unique(), embedding_rows_LH=embedding[ids_T.unique()],
        )  # fmt: skip
        scenario.rewrite(lambda c: c.update(golden={"file": "golden.safetensors", "produced_by": "trainer"}))
        (found,) = [c for c in scenario.verify().checks if c.rule == "golden.steps"]
        assert found.status is status


def test_a_capture_for_another_kind_of_drafter(scenario: Scenario) -> None:
    bundle = scenario.capture((0, 3, 5), "other-kind")
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert "capture.drafter" not in failed(scenario.verify(bundle))
    (bundle / "manifest.json").write_text(json.dumps(manifest | {"kind": "eagle"}))
    assert "capture.drafter" in failed(scenario.verify(bundle))


@pytest.mark.parametrize(("ids", "found"), [([5, 0, 3, 3], False), ([0, 3, 6], True), ([], False)])
def test_the_ids_that_an_engine_had_set_are_the_recipe_that_the_manifest_names(scenario: Scenario, ids: list[int], found: bool) -> None:
    bundle = scenario.capture((0, 3, 5), "ids")
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["engine"] |= {"name": "vllm", "version": "0.32.0", "runner": "v1", "layer_ids": ids}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    assert ("capture.recipe-fed" in failed(scenario.verify(bundle))) is found
