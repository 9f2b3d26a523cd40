"""The same counts, figures and findings from one, two and three workers, also where samples cannot be used."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.errors import UserError
from contract.findings import ExitCode
from contract.limits import DEFAULT_LIMITS
from contract.reporting import Report
from eagle3_contract.verify.executors.base import AHEAD, CHUNK, MANY, choose, chunks
from eagle3_contract.verify.executors.local import InProcess, Processes
from eagle3_contract.verify.executors.measure import Plan, file_digest, one_thread, open_measurer
from verify.executors.conftest import SAMPLES
from verify.scenario import Scenario, dump

Told = Callable[[Report], Any]


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_counts_the_same(many: Scenario, told: Told, workers: int) -> None:
    alone, together = many.verify(), many.verify(workers=workers)
    assert alone.measurements["training_path"]["samples"] == SAMPLES
    assert sum(alone.measurements["training_path"]["right"]) > 0
    assert told(together) == told(alone), dump(together)
    assert alone.provenance["execution"] == {"executor": "local", "workers": 1, "resumed": 0}
    assert together.provenance["execution"] == {"executor": "local", "workers": workers, "resumed": 0}


def test_unusable_samples_are_told_alike_and_in_order(own: Scenario, told: Told) -> None:
    whole = (own.samples / "s3.safetensors").read_bytes()
    (own.samples / "s3.safetensors").write_bytes(whole[:-8])
    (own.samples / "s7.safetensors").unlink()
    own.rewrite(lambda c: c["training"]["samples"]["manifest"].pop("s8.safetensors"))
    alone, together = own.verify(), own.verify(workers=2)
    assert alone.exit_code is ExitCode.UNUSABLE
    assert told(together) == told(alone)
    assert alone.measurements["training_path"]["samples"] == SAMPLES - 2


def test_more_threads_change_nothing(many: Scenario, told: Told) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        several = told(many.verify())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    with one_thread():
        assert told(many.verify()) == several


def test_fail_fast_ends_the_workers(own: Scenario) -> None:
    (own.samples / "s0.safetensors").unlink()
    report = own.verify(workers=2, fail_fast=True)
    assert report.exit_code is ExitCode.VIOLATED
    assert "stopped" in report.provenance


def plan(scenario: Scenario, **changes: Any) -> Plan:
    made = Plan(
        spec=str(scenario.spec), spec_sha256=file_digest(scenario.spec), root=str(scenario.samples), stored=(0, 3, 5), picked=(0, 1, 2),
        target=str(scenario.target_dir), device="cpu", allow_pickle=False, limits=DEFAULT_LIMITS,
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def test_a_worker_refuses_another_contract(many: Scenario) -> None:
    with pytest.raises(UserError) as caught:
        list(Processes(plan(many, spec_sha256="sha256:" + "0" * 64), 2).outcomes([str(many.samples / "s0.safetensors")]))
    assert caught.value.rule == "verify.contract-changed"


DIES = """
import pickle, sys
from contract.errors import UserError
from eagle3_contract.verify.executors.local import Processes

def main():
    with open(sys.argv[1], "rb") as file:
        plan = pickle.load(file)
    try:
        print("figures:", list(Processes(plan, 2).outcomes(sys.argv[2:])))
    except UserError as error:
        print("rule:", error.rule)

if __name__ == "__main__":
    main()
"""


def test_a_worker_that_dies_is_an_error_and_no_figure(many: Scenario, tmp_path: Path) -> None:
    """In a process of its own, as a user has it: a pool that breaks ends processes by number."""
    (tmp_path / "run.py").write_text(DIES)
    (tmp_path / "plan").write_bytes(pickle.dumps(plan(many, device="no-such-device")))
    files = [str(many.samples / f"s{i}.safetensors") for i in range(6)]
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "plan"), *files], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "rule: verify.worker-died\n"), ran.stderr


def test_samples_are_taken_as_they_are_needed(many: Scenario) -> None:
    taken: list[str] = []

    def files() -> Any:
        for _ in range(40):
            taken.append("")
            yield str(many.samples / "s0.safetensors")

    outcomes = Processes(plan(many), 2).outcomes(files())
    next(outcomes)
    assert len(taken) <= AHEAD * 2 * CHUNK
    outcomes.close()


def test_choice(many: Scenario) -> None:
    measurer = open_measurer(plan(many))
    assert isinstance(choose("local", 1, plan(many), measurer, 10**6), InProcess)
    assert isinstance(choose("local", None, plan(many), measurer, MANY - 1), InProcess)
    assert isinstance(choose("local", None, plan(many, device="cuda:0"), measurer, 10**6), InProcess)
    asked = choose("local", 5, plan(many), measurer, 3)
    assert (isinstance(asked, Processes), asked.workers) == (True, 3)


def test_chunks_hold_everything_once() -> None:
    names = [str(i) for i in range(11)]
    assert [n for chunk in chunks(names) for n in chunk] == names
    assert {len(chunk) for chunk in chunks(names)} == {CHUNK, 11 % CHUNK}
