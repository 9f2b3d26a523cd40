"""The child that runs a job through SGLang's Engine, with an Engine that only notes what it is asked."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eagle3_contract.engines.job import Job, read_job
from eagle3_contract.engines.sglang import hook_points, plugin, runner
from eagle3_contract.engines.spool_read import open_spool

META = {"spec_verify_ct": 4, "spec_num_proposed_drafts": 12, "spec_num_correct_drafts": 5, "completion_tokens": 10, "cached_tokens": 3}


def job(tmp_path: Path, **more: Any) -> Job:
    return read_job(json.dumps({
        "engine": "sglang", "target": "/target", "drafter": "/drafter", "spool": str(tmp_path / "spool"), "limit_bytes": None,
        "sweep": True,
        "flags": {"speculative_num_steps": 2, "log_level": "error"},
        "prompts": [{"id": "p", "input_ids": [1, 2], "sample": "s"}, {"id": "q", "input_ids": [3], "sample": None}],
        "submissions": [{"run": "", "prompts": [0]}, {"run": "warm", "prompts": [0]}, {"run": "warm", "prompts": [0]},
                        {"run": "batched", "prompts": [1, 0]}],
        "max_new_tokens": 8, "record_prompts_max": None,
    } | more))  # fmt: skip


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``prepare`` sets is taken back."""
    for name in (plugin.CAPTURE, plugin.SWEEP, plugin.LABELS, plugin.LIMIT, "PYTHONPATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))


class Engine:
    """Notes calls; answers as SGLang does."""

    def __init__(self, **flags: Any) -> None:
        self.flags, self.calls, self.events = flags, [], []

    def generate(self, **call: Any) -> list[dict[str, Any]]:
        self.calls.append(call)
        if call["input_ids"] == [[666]]:
            raise RuntimeError("the scheduler died")
        return [{"output_ids": [], "meta_info": dict(META)} for _ in call["rid"]]

    def get_server_info(self) -> None:
        self.events.append("asked")

    def shutdown(self) -> None:
        self.events.append("down")


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    made: list[Engine] = []

    class Module:
        @staticmethod
        def Engine(**flags: Any) -> Engine:
            made.append(Engine(**flags))
            return made[-1]

    monkeypatch.setattr(runner.importlib, "import_module", {"sglang": Module}.__getitem__)
    monkeypatch.setattr(hook_points, "require", lambda targets: None)
    return made


def test_requests_are_unique_and_labelled(tmp_path: Path) -> None:
    assert runner.labels(job(tmp_path)) == {
        "p": {"prompt_id": "p", "sample": "s", "run": ""},
        "p@warm": {"prompt_id": "p", "sample": "s", "run": "warm"},
        "p@warm#2": {"prompt_id": "p", "sample": "s", "run": "warm"},
        "q@batched": {"prompt_id": "q", "sample": None, "run": "batched"},
        "p@batched": {"prompt_id": "p", "sample": "s", "run": "batched"},
    }


def test_each_submission_is_one_greedy_call(tmp_path: Path, engines: list[Engine]) -> None:
    runner.run(job(tmp_path))
    (engine,) = engines
    assert [(c["input_ids"], c["rid"]) for c in engine.calls] == [
        ([[1, 2]], ["p"]), ([[1, 2]], ["p@warm"]), ([[1, 2]], ["p@warm#2"]), ([[3], [1, 2]], ["q@batched", "p@batched"]),
    ]  # fmt: skip
    assert engine.calls[0]["sampling_params"] == {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}
    assert engine.events == ["asked", "down"], "the scheduler has written everything before it is ended"


def test_flags_of_the_job_beat_the_defaults(tmp_path: Path, engines: list[Engine]) -> None:
    runner.run(job(tmp_path))
    flags = engines[0].flags
    assert (flags["model_path"], flags["speculative_draft_model_path"]) == ("/target", "/drafter")
    assert (flags["speculative_num_steps"], flags["log_level"], flags["disable_cuda_graph"]) == (2, "error", True)


def test_counters_are_the_sum_of_what_the_engine_says(tmp_path: Path, engines: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[dict[str, float]] = []
    monkeypatch.setattr(runner, "finish", lambda spool, counters: ended.append(dict(counters)))
    runner.run(job(tmp_path))
    assert ended == [{"rounds": 20, "drafted_tokens": 60, "accepted_tokens": 25, "output_tokens": 50, "cached_tokens": 15}]


def test_the_end_goes_beside_what_the_engine_wrote(tmp_path: Path) -> None:
    """Event names carry the process that wrote them, so that the two do not meet."""
    start = {
        "engine": "sglang", "version": "1", "runner": None, "mode": "eager", "tp": 1, "pp": 1, "device": "cpu", "dtype": "float32",
        "layer_ids": None, "layers": 1, "target_class": None, "drafter_class": None, "flags": {},
    }  # fmt: skip
    code = f"from eagle3_contract.engines.spool import Spool; Spool({str(tmp_path)!r}).event('start', **{start!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    runner.finish(tmp_path, {"rounds": 3})
    assert open_spool(tmp_path).counters == {"rounds": 3}


def test_a_request_without_drafting_counts_no_rounds() -> None:
    counters: dict[str, float] = {}
    runner.add_counters(counters, {"completion_tokens": 7})
    assert counters == {"rounds": 0, "drafted_tokens": 0, "accepted_tokens": 0, "output_tokens": 7, "cached_tokens": 0}


def test_an_engine_that_fails_is_ended_and_leaves_no_end(tmp_path: Path, engines: list[Engine]) -> None:
    broken = job(tmp_path, prompts=[{"id": "p", "input_ids": [666], "sample": None}], submissions=[{"run": "", "prompts": [0]}])
    with pytest.raises(RuntimeError, match="the scheduler died"):
        runner.run(broken)
    assert engines[0].events == ["down"]
    assert not (tmp_path / "spool").exists()


def test_the_engines_processes_find_the_plugin_and_its_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    monkeypatch.setenv("PYTHONPATH", "/kernels")
    runner.prepare(job(tmp_path, limit_bytes=77), tmp_path)
    assert os.environ["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/kernels"
    assert (os.environ[plugin.CAPTURE], os.environ[plugin.SWEEP], os.environ[plugin.LIMIT]) == (str(tmp_path / "spool"), "1", "77")
    assert plugin.read_labels(os.environ[plugin.LABELS])["p"].sample == "s"
    (found,) = importlib.metadata.distributions(path=[str(tmp_path)])
    (entry,) = found.entry_points
    assert (entry.group, entry.name) == ("sglang.srt.plugins", "eagle3_contract")
    assert entry.load() is plugin.register


def test_an_installed_entry_point_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.metadata.EntryPoint("eagle3_contract", "x:y", runner.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [installed])
    runner.prepare(job(tmp_path, sweep=False), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["labels.json"]
    assert os.environ[plugin.SWEEP] == "0"
    assert plugin.LIMIT not in os.environ


def test_the_job_is_the_only_argument(tmp_path: Path, engines: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    (tmp_path / "job.json").write_text(json.dumps(dataclasses.asdict(job(tmp_path))))
    assert runner.main([str(tmp_path / "job.json")]) == 0
    assert len(engines) == 1
    with pytest.raises(SystemExit, match="usage"):
        runner.main([])
