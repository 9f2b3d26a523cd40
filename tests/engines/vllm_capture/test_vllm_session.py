"""A capture on a worker: options, who records, prompts and outputs that a server's worker writes itself, start and end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Events
from fake_vllm import Worker

from eagle3_contract.engines.vllm.extension import CaptureExtension

PROMPT = ("a-00000000", [1, 2, 3], 0, [], [4])


class Extended(CaptureExtension, Worker):
    """What vLLM makes of its worker and the extension."""


@pytest.fixture
def extended(vllm_modules: SimpleNamespace) -> Extended:
    return Extended()


def begin(worker: Extended, tmp_path: Path, **more: Any) -> Any:
    return json.loads(worker.eagle3_contract_start(json.dumps({"folder": str(tmp_path / "spool"), **more})))


def test_start_tells_what_runs(extended: Extended, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    facts = begin(extended, tmp_path, flags={"dtype": "float32"})
    ((start, _),) = spool_events()
    assert start == {"kind": "start", **facts}
    assert start["layer_ids"] == [1, 2]
    assert (start["engine"], start["runner"], start["mode"], start["layers"]) == ("vllm", "v1", "eager", 3)
    assert start["flags"] == {"dtype": "float32"}


def test_the_flags_of_a_server_are_read_from_it(extended: Extended, tmp_path: Path) -> None:
    flags = begin(extended, tmp_path)["flags"]
    assert flags["enable_prefix_caching"] == "false"
    assert json.loads(flags["speculative_config"]) == {"method": "eagle3", "num_speculative_tokens": 3}


@pytest.mark.parametrize(("options", "word"), [({"sweeep": True}, "unknown: \\['sweeep'\\]"), ({"folder": None}, "needs a folder")])
def test_options_that_are_not_understood(extended: Extended, tmp_path: Path, options: dict[str, Any], word: str) -> None:
    given = {"folder": str(tmp_path), **options}
    with pytest.raises(RuntimeError, match=word):
        extended.eagle3_contract_start(json.dumps({k: v for k, v in given.items() if v is not None}))


def test_one_capture_at_a_time(extended: Extended, tmp_path: Path) -> None:
    begin(extended, tmp_path)
    with pytest.raises(RuntimeError, match="a capture is running"):
        begin(extended, tmp_path)
    extended.eagle3_contract_stop()
    begin(extended, tmp_path)


@pytest.mark.parametrize(("rank", "last"), [(1, True), (0, False)])
def test_other_workers_do_not_record(extended: Extended, tmp_path: Path, vllm_modules: SimpleNamespace, rank: int, last: bool) -> None:
    vllm_modules.rank, vllm_modules.last = rank, last
    assert begin(extended, tmp_path) is None
    assert extended.eagle3_contract_event(json.dumps({"kind": "output", "facts": {"request": "a"}})) == "null"
    extended.eagle3_contract_stop()
    assert not (tmp_path / "spool").exists()


def test_a_sweep_needs_eager_mode(extended: Extended, tmp_path: Path) -> None:
    extended.vllm_config.model_config.enforce_eager = False
    extended.vllm_config.compilation_config.mode = 3
    with pytest.raises(RuntimeError, match="start with enforce_eager"):
        begin(extended, tmp_path, sweep=True)


def test_events_and_end(extended: Extended, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    begin(extended, tmp_path, only=["mine"])
    extended.eagle3_contract_names(json.dumps({"a": "mine"}))
    facts = {"request": "mine", "prompt_id": "p", "sample": None, "run": ""}
    extended.eagle3_contract_event(json.dumps({"kind": "prompt", "facts": facts, "tensors": {"input_ids": [1, 2, 3]}}))
    extended.model_runner.step([PROMPT])
    extended.eagle3_contract_stop(json.dumps({"rounds": 0}))
    events = spool_events()
    assert [e["kind"] for e, _ in events] == ["start", "prompt", "target", "drafter", "drafter", "drafter", "end"]
    assert events[1][1]["input_ids"].tolist() == [1, 2, 3]
    assert events[-1][0]["counters"] == {"rounds": 0}
    assert "_sample" not in vars(extended.model_runner)


def test_a_server_s_worker_writes_prompts_and_outputs(extended: Extended, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    begin(extended, tmp_path, serve=True, run="served")
    runner = extended.model_runner
    runner.step([PROMPT, ("b-00000000", [9, 1], 0, [], [3])])
    runner.requests["a-00000000"].sampling_params = SimpleNamespace(max_tokens=2)
    runner.step([("a-00000000", [4, 5, 6, 7], 3, [5, 6, 7], [5, 6])])
    runner.finish("a-00000000")
    extended.eagle3_contract_stop()
    events = spool_events()
    prompts = [(e["request"], e["run"], t["input_ids"].tolist()) for e, t in events if e["kind"] == "prompt"]
    assert prompts == [("a", "served", [1, 2, 3]), ("b", "served", [9, 1])]
    outputs = [(e["request"], t["output_ids"].tolist()) for e, t in events if e["kind"] == "output"]
    assert outputs == [("a", [4, 5, 6]), ("b", [3])]
    assert [e["kind"] for e, _ in events][-2:] == ["output", "end"]
    assert runner.removed == "a-00000000"


def test_max_tokens_cuts_what_the_last_round_gave_too_many(extended: Extended, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    begin(extended, tmp_path, serve=True)
    runner = extended.model_runner
    state = SimpleNamespace(num_prompt_tokens=3, prompt_token_ids=[1, 2, 3], sampling_params=SimpleNamespace(max_tokens=2))
    runner.requests["a-00000000"] = state
    runner.step([PROMPT])
    runner.step([("a-00000000", [4, 5, 6, 7], 3, [5, 6, 7], [5, 6, 7])])
    runner.finish("a-00000000")
    assert [t["output_ids"].tolist() for e, t in spool_events() if e["kind"] == "output"] == [[4, 5]]


def test_doctor(extended: Extended) -> None:
    assert json.loads(extended.eagle3_contract_doctor())["drafter"] == "Drafter"
