"""Samples of the embedded pair, wrong in ways that no shape shows, with digests that fit: a mistaken dump, not tampering."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from contract.findings import ExitCode, Status
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.verify.run import verify
from verify.scenario import dump, failed

DATA = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"
Tensors = dict[str, Tensor]
SAMPLE = "sample-03.safetensors"


class Bad:
    """A copy of drafter A whose samples can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "drafter-a"
        shutil.copytree(DATA / "drafter-a", self.folder)
        self.names = sorted(p.name for p in (self.folder / "samples").iterdir())

    def tensors(self, name: str) -> Tensors:
        return load_file(self.folder / "samples" / name)

    def change(self, name: str, how: Callable[[Tensors], None], *, last: str | None = None) -> None:
        path, tensors = self.folder / "samples" / name, self.tensors(name)
        with safe_open(path, "pt") as held:
            metadata = held.metadata()
        how(tensors)
        path.unlink()
        save_file({k: x.contiguous() for k, x in tensors.items()}, path, metadata | ({} if last is None else {"last": last}))
        contract = yaml.safe_load((self.folder / "contract.yaml").read_text())
        contract["training"]["samples"]["manifest"][name] = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        (self.folder / "contract.yaml").write_text(yaml.safe_dump(contract, sort_keys=False))

    def verify(self) -> Report:
        return verify(VerifyRequest(spec=str(self.folder / "contract.yaml"), target=str(DATA / "target")))


@pytest.fixture
def bad(tmp_path: Path) -> Bad:
    return Bad(tmp_path)


def norm_weight() -> Tensor:
    shards = (load_file(path) for path in sorted((DATA / "target").glob("*.safetensors")))
    return next(tensors["model.norm.weight"] for tensors in shards if "model.norm.weight" in tensors)


def normed(tensors: Tensors) -> None:
    x_TG = tensors["last_hidden_state"].float()
    unit_TG = x_TG * (x_TG.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    tensors["last_hidden_state"] = (unit_TG * norm_weight().float()).bfloat16()


def test_clean_samples_are_kept(bad: Bad) -> None:
    report = bad.verify()
    assert report.exit_code is ExitCode.KEPT, dump(report)
    said = {c.rule for c in report.checks if c.status is Status.PASSED}
    assert {"samples.last-state", "samples.apart"} <= said


def test_a_last_state_that_is_normed_already(bad: Bad) -> None:
    for name in bad.names:
        bad.change(name, normed)
    report = bad.verify()
    assert failed(report) == {"samples.last-state"}, dump(report)


def test_a_last_state_that_is_not_normed_though_the_contract_says_so(bad: Bad) -> None:
    contract = yaml.safe_load((bad.folder / "contract.yaml").read_text())
    contract["training"]["target_state"] = {"boundary": 12, "normed": True, "norm_applied_by_trainer": False}
    (bad.folder / "contract.yaml").write_text(yaml.safe_dump(contract, sort_keys=False))
    for name in bad.names:
        bad.change(name, lambda tensors: None, last="final_norm")
    assert "samples.last-state" in failed(bad.verify())
    for name in bad.names:
        bad.change(name, normed, last="final_norm")
    report = bad.verify()
    assert report.exit_code is ExitCode.KEPT, dump(report)


def zeros(tensors: Tensors) -> None:
    tensors["states"] = torch.zeros_like(tensors["states"])


def one_row(tensors: Tensors) -> None:
    tensors["states"] = tensors["states"][5].expand_as(tensors["states"])


def one_state_zero(tensors: Tensors) -> None:
    tensors["states"] = tensors["states"].clone()
    tensors["states"][:, 1] = 0


def last_zero(tensors: Tensors) -> None:
    tensors["last_hidden_state"] = torch.zeros_like(tensors["last_hidden_state"])


@pytest.mark.parametrize("how", [zeros, one_row, one_state_zero, last_zero])
def test_rows_that_are_all_alike(how: Callable[[Tensors], None], bad: Bad) -> None:
    bad.change(SAMPLE, how)
    report = bad.verify()
    assert report.exit_code is ExitCode.VIOLATED
    assert failed(report) == {"samples.rows-alike"}, dump(report)


def test_one_token_said_again_and_again_has_states_that_are_alike(bad: Bad) -> None:
    def repeated(tensors: Tensors) -> None:
        one_row(tensors)
        tensors["input_ids"] = torch.full_like(tensors["input_ids"], 7)

    bad.change(SAMPLE, repeated)
    assert "samples.rows-alike" not in failed(bad.verify())


def test_states_of_another_text_set_a_sample_apart(bad: Bad) -> None:
    other = bad.tensors("sample-05.safetensors")["states"]
    bad.change(SAMPLE, lambda tensors: tensors.update(states=other))
    report = bad.verify()
    (apart,) = [c for c in report.checks if c.rule == "samples.apart"]
    assert apart.status is not Status.PASSED
    assert apart.where is not None
    assert apart.where.sample == SAMPLE
    assert report.exit_code is ExitCode.KEPT, dump(report)  # a warning: a text may be unlike the others
