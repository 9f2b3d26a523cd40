"""A vLLM without a hook point is named, with everything that is missing."""

from __future__ import annotations

import pytest
from fake_vllm import LAYERS, Proposer, Runner, Worker

from eagle3_contract.engines.vllm import hook_points
from eagle3_contract.engines.vllm.hook_points import HookPointsMissing, find


def test_everything_is_there(worker: Worker) -> None:
    points = find(worker)
    assert points.drafter is worker.model_runner.drafter.model
    assert points.layer_ids == [1, 2]
    assert len(points.layers) == LAYERS


@pytest.mark.parametrize("name", ["_model_forward", "_sample", "_on_request_state_removed", "get_model"])
def test_a_runner_that_lacks_a_method(name: str, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Runner, name)
    monkeypatch.setattr(hook_points, "installed_version", lambda: "0.99.0")
    with pytest.raises(HookPointsMissing, match=r"vLLM 0\.99\.0 cannot be captured") as caught:
        find(worker)
    assert caught.value.missing == (f"Runner has no {name}",)
    assert "0.32.0" in str(caught.value)


def test_all_that_is_missing_is_named_at_once(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Runner, "_sample")
    monkeypatch.setattr(Runner, "_model_forward", lambda self, ids: None)
    monkeypatch.setattr(Proposer, "propose", lambda self, common_attn_metadata: None)
    with pytest.raises(HookPointsMissing) as caught:
        find(worker)
    assert caught.value.missing == (
        "Runner has no _sample",
        "Proposer.propose has no argument token_indices_to_sample",
        "Runner._model_forward has no argument input_ids",
        "Runner._model_forward has no argument positions",
    )


def test_no_drafter(worker: Worker) -> None:
    del worker.model_runner.drafter
    with pytest.raises(HookPointsMissing, match="no drafter is loaded"):
        find(worker)


@pytest.mark.parametrize(("name", "value", "word"), [("method", "eagle", "not eagle3"), ("parallel_drafting", True, "parallel drafting")])
def test_drafting_that_is_not_captured(name: str, value: object, word: str, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Proposer, name, value)
    with pytest.raises(HookPointsMissing, match=word):
        find(worker)


def test_a_drafter_inside_a_wrapper(worker: Worker) -> None:
    worker.model_runner.drafter.model = object()  # type: ignore[assignment]  # what a graph wrapper is to us
    with pytest.raises(HookPointsMissing, match="wrapped in object"):
        find(worker)
