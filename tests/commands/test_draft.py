"""``contract draft`` on the files that trainers wrote: the wiring read from the checkpoint reproduces the trainer's own logits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from peers.references import DATA, Reference, angelslim, eagle_infer, modelopt, speculators_classic, speculators_default
from safetensors.torch import load_file, save_file

from contract.cli.main import main


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target's embedding alone, as a folder of its own: only this shard of it is committed."""
    folder = tmp_path_factory.mktemp("target")
    shutil.copy(DATA / "target_tiny" / "model-00001-of-00008.safetensors", folder / "model.safetensors")
    shutil.copy(DATA / "target_tiny" / "config.json", folder)
    return folder


CASES = {
    "speculators classic": (speculators_classic, "speculators-0.9.0/eagle3_classic", 3, []),
    "speculators default": (speculators_default, "speculators-0.9.0/default_0.9.0", 3, []),
    "EAGLE": (eagle_infer, "eagle-official/ckpt", 1, ["--allow-pickle"]),
    "ModelOpt": (modelopt, "modelopt-0.47.0/export_offline", 3, []),
    "AngelSlim": (angelslim, "angelslim-0.5.0/ckpt_full", 3, []),
}


def write_inputs(reference: Reference, path: Path) -> Path:
    states = torch.nan_to_num(reference.hidden_states.float())
    tensors = {"input_ids": reference.input_ids.long(), "hidden_states": states.contiguous()}
    if reference.position_ids is not None:
        tensors["position_ids"] = reference.position_ids.long()
    if reference.document_ids is not None:
        tensors["document_ids"] = reference.document_ids.long()
    save_file({k: v.contiguous() for k, v in tensors.items()}, path)
    return path


@pytest.mark.parametrize("case", CASES)
def test_draft_reproduces_the_trainer(case: str, target: Path, tmp_path: Path) -> None:
    make, folder, steps, more = CASES[case]
    reference = make()
    inputs, out = write_inputs(reference, tmp_path / "in.safetensors"), tmp_path / "out.safetensors"
    arguments = ["draft", str(DATA / folder), "--inputs", str(inputs), "--target", str(target), "--steps", str(steps), "-o", str(out)]
    assert main([*arguments, *more]) == 0
    got = load_file(out)
    assert sorted(got) == [f"logits_step{s}" for s in range(steps)]
    for step in range(steps):
        want_RD, got_RD = reference.expected_steps[step], got[f"logits_step{step}"]
        live_R = want_RD.isfinite().all(1)
        assert live_R.any()
        bound = 1e-5 * max(1.0, float(want_RD[live_R].abs().max()))
        assert float((want_RD[live_R] - got_RD[live_R]).abs().max()) <= bound


def test_pickled_weights_are_refused_without_the_flag(target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = eagle_infer()
    inputs = write_inputs(reference, tmp_path / "in.safetensors")
    code = main(["draft", str(DATA / "eagle-official/ckpt"), "--inputs", str(inputs), "--target", str(target), "-o", str(tmp_path / "o")])
    assert code == 2
    assert "--allow-pickle" in capsys.readouterr().err
