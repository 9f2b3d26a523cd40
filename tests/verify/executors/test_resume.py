"""A run that was killed goes on where it was; a journal of anything else is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected
from contract.findings import ExitCode
from contract.reporting import Report
from eagle3_contract.verify.executors.journal import Journal
from eagle3_contract.verify.executors.result import SampleResult
from verify.executors.conftest import SAMPLES
from verify.scenario import Scenario, dump

Told = Callable[[Report], Any]
KILLED = """
import os, signal, sys
from eagle3_contract.verify.executors.journal import Journal
from eagle3_contract.verify.run import verify
from contract.requests import VerifyRequest

def main():
    spec, target, journal, workers, after = sys.argv[1:]
    add, seen = Journal.add, []
    def counted(self, digest, result):
        add(self, digest, result)
        seen.append(result)
        if len(seen) == int(after):
            import multiprocessing
            sys.stdout.write(" ".join(str(c.pid) for c in multiprocessing.active_children()) + "\\n")
            sys.stdout.flush()
            os.write(self._fd, b'{"digest":"sha256:torn in the mid')
            os.kill(os.getpid(), signal.SIGKILL)
    Journal.add = counted
    verify(VerifyRequest(spec=spec, target=target, resume=journal, workers=int(workers)))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_resumed_is_as_if_it_had_never_been_killed(many: Scenario, told: Told, tmp_path: Path, workers: int) -> None:
    script, journal = tmp_path / "run.py", tmp_path / "journal.jsonl"
    script.write_text(KILLED)
    line = [sys.executable, str(script), str(many.spec), str(many.target_dir), str(journal), str(workers), "4"]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert journal.read_bytes().endswith(b"torn in the mid")
    pids = [int(pid) for pid in ran.stdout.split()]
    # One of the workers may have run out of samples, or not have begun, when the other's result came in.
    assert bool(pids) is (workers > 1)
    assert len(pids) <= workers
    for pid in pids:
        _wait_until_gone(pid)
    resumed = many.verify(resume=str(journal), workers=3 - workers)
    assert resumed.provenance["execution"]["resumed"] == 4
    assert told(resumed) == told(many.verify())
    again = many.verify(resume=str(journal))
    assert again.provenance["execution"]["resumed"] == SAMPLES
    assert told(again) == told(resumed)


def _wait_until_gone(pid: int) -> None:
    """Workers of a killed parent end by themselves. Waits for as long as the test may run."""
    status = Path(f"/proc/{pid}/status")
    with suppress(FileNotFoundError, ProcessLookupError):
        while "\nState:\tZ" not in status.read_text():
            time.sleep(0.05)


def test_a_changed_sample_is_measured_again(own: Scenario, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    own.verify(resume=str(journal))
    one, other = own.samples / "s1.safetensors", own.samples / "s2.safetensors"
    one.write_bytes(other.read_bytes())
    report = own.verify(resume=str(journal))
    assert report.provenance["execution"]["resumed"] == SAMPLES - 1
    figures = report.measurements["training_path"]["per_sample"]
    assert figures["s1.safetensors"] == figures["s2.safetensors"]


def test_problems_are_not_written_down(own: Scenario, tmp_path: Path) -> None:
    whole = (own.samples / "s3.safetensors").read_bytes()
    (own.samples / "s3.safetensors").write_bytes(whole[:-8])
    own.verify(resume=str(tmp_path / "journal"))
    (own.samples / "s3.safetensors").write_bytes(whole)
    report = own.verify(resume=str(tmp_path / "journal"))
    assert report.provenance["execution"]["resumed"] == SAMPLES - 1
    assert report.measurements["training_path"]["samples"] == SAMPLES


def test_another_contract_or_other_weights_are_another_run(own: Scenario, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal")
    own.verify(resume=journal)
    own.rewrite(lambda c: c["wiring"].update(feedback="post_norm"))
    report = own.verify(resume=journal)
    assert report.exit_code is ExitCode.UNUSABLE
    assert [c.rule for c in report.checks if c.rejected] == ["verify.journal"], dump(report)
    assert "training_path" not in report.measurements


RESULT = SampleResult(name="a", rounds=3, accepted=1, right=(1, 0), rows=(3, 2), covered=3, counted=3, missing=None)


def write(path: Path, run: str = "run") -> bytes:
    with Journal(path, run) as journal:
        journal.add("sha256:a", RESULT)
    return path.read_bytes()


@given(cut=st.integers(0, 400))
def test_any_torn_end_is_dropped_and_written_again(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.getbasetemp() / "torn"
    path.unlink(missing_ok=True)
    whole = write(path)
    path.write_bytes(whole[:cut])
    with Journal(path, "run") as journal:
        complete = whole[:cut].count(b"\n") == 2
        assert ("a" in journal.known) is complete
        if not complete:
            journal.add("sha256:a", RESULT)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data.replace(b'"rounds":3', b'"rounds":"3"'),
        lambda data: data.replace(b'"rounds":3', b'"runds":3'),
        lambda data: data[:60] + data[61:],
        lambda data: data.replace(b'"format_version":1', b'"format_version":2'),
        lambda data: b"not a journal\n",
        lambda data: b"precious text without a line end",
        lambda data: data + b"\xff\xfe\n",
    ],
)
def test_a_damaged_journal_is_refused_and_left_alone(tmp_path: Path, edit: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "journal"
    spoilt = edit(write(path))
    path.write_bytes(spoilt)
    with pytest.raises(InputRejected) as caught:
        Journal(path, "run")
    assert caught.value.rule == "verify.journal"
    assert path.read_bytes() == spoilt


def test_no_link_no_folder_no_pipe(tmp_path: Path) -> None:
    write(tmp_path / "journal")
    (tmp_path / "link").symlink_to(tmp_path / "journal")
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "link", "pipe", "absent/journal"):
        with pytest.raises(InputRejected):
            Journal(tmp_path / name, "run")


def test_a_journal_is_json_lines(tmp_path: Path) -> None:
    head, line = [json.loads(text) for text in write(tmp_path / "journal").splitlines()]
    assert head == {"format": "eagle3-contract-journal", "format_version": 1, "run": "run"}
    assert (line["digest"], line["result"]["right"]) == ("sha256:a", [1, 0])
