"""What a probe writes: rows to their requests, phases, rounds, junk rows and padding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import Events
from fake_vllm import LAYERS, WIDTH, Worker

from eagle3_contract.engines.spool import Spool
from eagle3_contract.engines.vllm.hook_points import find
from eagle3_contract.engines.vllm.probe import Probe

PROMPT = ("a-00000000", [1, 2, 3], 0, [], [4])
VERIFY = ("b-00000000", [5, 6, 7, 8], 9, [6, 7, 8], [6, 9])


def start(worker: Worker, tmp_path: Path, **more: object) -> Probe:
    return Probe(find(worker), Spool(tmp_path / "spool"), **more)  # type: ignore[arg-type]  # options of each test


def kinds(events: Events) -> list[tuple[str, str, str | None]]:
    return [(e["request"], e["kind"], e.get("phase")) for e, _ in events]


def test_a_step_with_a_prompt_and_a_verification(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    start(worker, tmp_path)
    worker.model_runner.requests.clear()
    worker.model_runner.requests["b-00000000"] = type("State", (), {"num_prompt_tokens": 5})()
    worker.model_runner.step([PROMPT, VERIFY], places=[2, 4])
    events = spool_events()
    assert kinds(events) == [
        ("a", "target", "prefill"),
        ("b", "target", "verify"),
        ("b", "round", None),
        ("a", "drafter", "prefill"),
        ("b", "drafter", "extend"),
        ("a", "drafter", "draft"),
        ("b", "drafter", "draft"),
        ("a", "drafter", "draft"),
        ("b", "drafter", "draft"),
    ]
    target_b, extend_b = events[1][1], events[4][1]
    assert target_b["input_ids"].tolist() == [5, 6, 7, 8]
    assert target_b["position_ids"].tolist() == [9, 10, 11, 12]
    assert target_b["slot.0"].shape == (4, WIDTH)
    assert events[2][1]["proposed"].tolist() == [6, 7, 8]
    assert events[2][1]["emitted"].tolist() == [6, 9]
    assert torch.equal(extend_b["fc_in"], torch.cat([target_b["slot.0"], target_b["slot.1"]], -1))
    assert torch.equal(extend_b["hidden_in"], extend_b["fc_out"])
    assert extend_b["logit_rows"].tolist() == [1]
    draft_b = events[6][1]
    assert "fc_in" not in draft_b
    assert torch.equal(draft_b["hidden_in"], extend_b["state_out"][1:2])
    assert draft_b["position_ids"].tolist() == [11]
    assert draft_b["input_ids"].tolist() == extend_b["logits"].argmax(-1).tolist()
    assert [e["step"] for e, _ in events[3:]] == [0, 0, 1, 1, 2, 2]


def test_the_same_alone_and_in_a_batch(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    start(worker, tmp_path)
    worker.model_runner.step([PROMPT, ("c-00000000", [9, 1], 0, [], [3])])
    worker.model_runner.requests.clear()
    worker.model_runner.step([("c-00000000", [9, 1], 0, [], [3])])
    of_c = [t for e, t in spool_events() if e["request"] == "c"]
    batched, alone = of_c[: len(of_c) // 2], of_c[len(of_c) // 2 :]
    for one, other in zip(batched, alone, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.allclose(one[name].double(), other[name].double()) for name in one)


def test_a_chunk_samples_nothing(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    start(worker, tmp_path)
    worker.model_runner.requests["a-00000000"] = type("State", (), {"num_prompt_tokens": 7})()
    worker.model_runner.step([PROMPT], discarded=["a-00000000"])
    worker.model_runner.step([("a-00000000", [4, 5, 6, 7], 3, [], [8])])
    events = spool_events()
    assert [e for e in kinds(events) if e[1] != "drafter"] == [("a", "target", "prefill"), ("a", "target", "prefill")]
    assert [(e["phase"], e["step"]) for e, _ in events if e["kind"] == "drafter"] == [("prefill", 0), ("draft", 1), ("draft", 2)] * 2


def test_a_token_without_drafts_is_no_round(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    start(worker, tmp_path)
    worker.model_runner.requests["a-00000000"] = type("State", (), {"num_prompt_tokens": 3})()
    worker.model_runner.step([("a-00000000", [4], 3, [], [8])])
    events = spool_events()
    assert kinds(events)[:2] == [("a", "target", "decode"), ("a", "drafter", "extend")]


def test_only_and_names(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    probe = start(worker, tmp_path, only={"mine"})
    probe.know({"a": "mine"})
    worker.model_runner.step([PROMPT, ("c-00000000", [9, 1], 0, [], [3])])
    assert {e["request"] for e, _ in spool_events()} == {"mine"}


def test_dummy_runs_are_nobodys(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    start(worker, tmp_path)
    worker.model_runner.drafter.dummy_run()
    assert spool_events() == []


def test_stop_leaves_everything_as_it_was(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    runner, drafter = worker.model_runner, worker.model_runner.drafter.model
    before = [set(vars(o)) for o in (runner, runner.drafter, drafter)]
    probe = start(worker, tmp_path, sweep=True)
    assert "_sample" in vars(runner)
    probe.stop()
    assert [set(vars(o)) for o in (runner, runner.drafter, drafter)] == before
    hooked = [m for m in (drafter, *runner.model.modules()) if m._forward_hooks or m._forward_pre_hooks]
    assert hooked == []
    runner.step([PROMPT])
    assert spool_events() == []


def test_a_wrap_that_was_there_comes_back(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    outer = start(worker, tmp_path)
    held = vars(worker.model_runner)["_sample"]
    inner = Probe(find(worker), Spool(tmp_path / "second"))
    inner.stop()
    assert vars(worker.model_runner)["_sample"] is held
    outer.stop()


def test_a_row_of_another_request_is_not_passed_off(worker: Worker, tmp_path: Path) -> None:
    start(worker, tmp_path)
    with pytest.raises(ValueError, match="samples row 1 for request c"):
        worker.model_runner.step([PROMPT, ("c-00000000", [9, 1], 0, [], [3])], places=[2, 1])


def test_a_target_that_gives_no_states(worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.model_runner.model.model, "forward", lambda ids, positions: torch.zeros(len(ids), WIDTH))
    start(worker, tmp_path)
    with pytest.raises(RuntimeError, match="nothing is fed to a drafter"):
        worker.model_runner.step([PROMPT])


def test_a_sweep_sees_every_boundary(worker: Worker, tmp_path: Path, spool_events: Callable[[], Events]) -> None:
    start(worker, tmp_path, sweep=True)
    worker.model_runner.step([PROMPT])
    target = spool_events()[0][1]
    assert [name for name in sorted(target) if name.startswith("boundary")] == [f"boundary.{k}" for k in range(LAYERS + 1)]
    assert torch.equal(target["slot.0"], target["boundary.1"])
    assert torch.equal(target["slot.1"], target["boundary.2"])
    embedding = worker.model_runner.model.model.embed_tokens.weight
    assert torch.equal(target["boundary.0"], embedding[target["input_ids"]])  # the residual is added to in place later
    assert torch.allclose(target["boundary.3"] + 100, target["final_norm"])
