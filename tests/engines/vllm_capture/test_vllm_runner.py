"""The child of a capture: jobs, names, arguments, counters, and the order of events with an engine that answers at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from eagle3_contract.engines.job import read_job, request_names
from eagle3_contract.engines.vllm.runner import EXTENSION, arguments, counted, counters, main

JOB: Mapping[str, Any] = {
    "engine": "vllm",
    "target": "T",
    "drafter": "D",
    "spool": "S",
    "limit_bytes": None,
    "sweep": False,
    "flags": {"dtype": "float32", "speculative_config": {"num_speculative_tokens": 5}},
    "prompts": [{"id": "p0", "input_ids": [1, 2], "sample": None}, {"id": "p1", "input_ids": [3], "sample": "s1"}],
    "submissions": [{"run": "", "prompts": [0]}, {"run": "batched", "prompts": [0, 1]}, {"run": "batched", "prompts": [0]}],
    "max_new_tokens": 4,
    "record_prompts_max": None,
}


@dataclass
class Counter:
    name: str
    value: int


@dataclass
class Vector:
    name: str
    values: list[int]


@dataclass
class Gauge:
    name: str
    value: float


def test_names_are_unique() -> None:
    assert request_names(read_job(json.dumps(JOB))) == [["p0"], ["p0@batched", "p1@batched"], ["p0@batched#2"]]


@pytest.mark.parametrize("key", ["target", "spool", "max_new_tokens"])
def test_a_job_that_lacks_something(key: str) -> None:
    with pytest.raises(TypeError, match=key):
        read_job(json.dumps({k: v for k, v in JOB.items() if k != key}))


def test_arguments() -> None:
    given = arguments(read_job(json.dumps(JOB)))
    assert given["speculative_config"] == {"method": "eagle3", "num_speculative_tokens": 5, "model": "D"}
    assert (given["model"], given["dtype"], given["enable_prefix_caching"], given["worker_extension_cls"]) == (
        "T",
        "float32",
        False,
        EXTENSION,
    )
    cached = {**JOB, "flags": {"enable_prefix_caching": True}}
    assert arguments(read_job(json.dumps(cached)))["enable_prefix_caching"] is True


def test_what_the_engine_counted() -> None:
    before = counters([Counter("vllm:spec_decode_num_drafts", 3), Gauge("vllm:num_requests_running", 1)])
    after = counters(
        [
            Counter("vllm:spec_decode_num_drafts", 10),
            Counter("vllm:spec_decode_num_accepted_tokens", 4),
            Vector("vllm:spec_decode_num_accepted_tokens_per_pos", [3, 1]),
            Counter("python_gc", 7),
        ]
    )
    assert before == {"vllm:spec_decode_num_drafts": 3.0}
    assert counted(before, after) == {
        "vllm:spec_decode_num_drafts": 7.0,
        "vllm:spec_decode_num_accepted_tokens": 4.0,
        "vllm:spec_decode_num_accepted_tokens_per_pos:0": 3.0,
        "vllm:spec_decode_num_accepted_tokens_per_pos:1": 1.0,
        "rounds": 7.0,
        "accepted_tokens": 4.0,
    }


class FakeLLM:
    """Answers each request with its own first token, all of a submission in one step."""

    calls: list[tuple[str, Any]] = []  # noqa: RUF012  # of the one test that reads it

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.llm_engine = self
        self.waiting: list[tuple[str, list[int]]] = []

    def collective_rpc(self, method: str, args: tuple[str, ...]) -> None:
        self.calls.append((method, json.loads(args[0])))

    def get_metrics(self) -> list[Any]:
        return [Counter("vllm:spec_decode_num_drafts", len(self.calls))]

    def add_request(self, name: str, prompt: dict[str, list[int]], params: Any) -> None:
        self.waiting.append((name, prompt["prompt_token_ids"]))

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting)

    def step(self) -> list[Any]:
        done, self.waiting = self.waiting, []
        return [SimpleNamespace(finished=True, request_id=n, outputs=[SimpleNamespace(token_ids=p[:1])]) for n, p in done]


def test_the_whole_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("vllm")
    vars(module).update(LLM=FakeLLM, SamplingParams=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(FakeLLM, "calls", [])
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "3")
    job = tmp_path / "job.json"
    job.write_text(json.dumps({**JOB, "record_prompts_max": 2}))
    assert main([str(job)]) == 0
    methods = [m.removeprefix("eagle3_contract_") for m, _ in FakeLLM.calls]
    assert methods == ["start", "event", "event", "event", "event", "stop"]
    start, *events, stop = (given for _, given in FakeLLM.calls)
    assert start["only"] == ["p0", "p0@batched"]
    assert json.loads(start["flags"]["speculative_config"]) == {"method": "eagle3", "num_speculative_tokens": 5}
    assert [(e["kind"], e["facts"]["request"]) for e in events] == [
        ("prompt", "p0"),
        ("output", "p0"),
        ("prompt", "p0@batched"),
        ("output", "p0@batched"),
    ]
    assert events[1]["tensors"] == {"output_ids": [1]}
    assert stop["rounds"] == 5.0
