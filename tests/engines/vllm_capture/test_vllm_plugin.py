"""The plugin: off without its variables, registered through the registry, gate and capture at the end of a worker's start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import Events
from fake_vllm import Drafter, Worker
from torch import Tensor, nn

from eagle3_contract.engines import gate
from eagle3_contract.engines.vllm import drafters, plugin
from eagle3_contract.engines.vllm.hook_points import find
from eagle3_contract.engines.vllm.live_facts import live_facts, shared_tables, target_ids
from eagle3_contract.engines.vllm.parameters import checkpoint_parameters


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(plugin.CAPTURE, raising=False)
    monkeypatch.delenv(plugin.GATE, raising=False)
    monkeypatch.setattr(drafters, "_listeners", [])


def test_off_it_does_not_even_import_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    plugin.register()
    monkeypatch.setenv(plugin.GATE, "warn")
    with pytest.raises(ImportError):
        plugin.register()


def test_the_drafters_of_the_registry_are_replaced(monkeypatch: pytest.MonkeyPatch, vllm_modules: SimpleNamespace) -> None:
    monkeypatch.setenv(plugin.GATE, "warn")
    plugin.register()
    plugin.register()
    assert vllm_modules.registered == {"LlamaForCausalLMEagle3": "eagle3_contract.engines.vllm.drafters:Eagle3LlamaForCausalLM"}


class Loading(nn.Module):
    def load_weights(self, weights: list[float]) -> set[str]:
        self.loaded = list(weights)
        return {"all"}


def test_a_watched_drafter_tells_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm.model_executor.models.llama_eagle3")
    vars(module)["Eagle3LlamaForCausalLM"] = Loading
    monkeypatch.setitem(sys.modules, module.__name__, module)
    heard: list[nn.Module] = []
    drafters.listen(lambda drafter: pytest.fail("an older listener"))
    drafters.listen(heard.append)
    made = drafters.Eagle3LlamaForCausalLM
    assert issubclass(made, Loading)
    assert made.__name__ == "Loading"
    drafter: Any = made()
    assert drafter.load_weights([1.0]) == {"all"}
    assert (drafter.loaded, heard) == ([1.0], [drafter])
    with pytest.raises(AttributeError, match="no attribute"):
        drafters.__getattr__("Other")
    drafters._made.cache_clear()


def test_gate_then_capture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_modules: SimpleNamespace, spool_events: Callable[[], Events]
) -> None:
    monkeypatch.setenv(plugin.GATE, "refuse")
    monkeypatch.setenv(plugin.CAPTURE, str(tmp_path / "spool"))
    asked: list[Any] = []
    monkeypatch.setattr(gate, "at_start", lambda facts, mode: asked.append((facts, mode)))
    ends: list[Any] = []
    monkeypatch.setattr(plugin, "Finalize", lambda owner, end, args, exitpriority: ends.append((end, args)))
    worker = Worker()
    worker.load_model(plugin.loaded)
    assert asked == []
    assert worker.compile_or_warm_up_model() == 1.5
    ((facts, mode),) = asked
    assert mode == "refuse"
    assert facts.layer_ids == (1, 2)
    assert facts.shared == {"embedding": "own", "lm_head": "own"}
    assert sorted(facts.parameters) == ["lm_head.bias", "lm_head.weight", "model.embed_tokens.weight", "model.fc.weight"]
    assert "compile_or_warm_up_model" not in vars(worker)
    worker.model_runner.step([("a-00000000", [1, 2, 3], 0, [], [4])])
    ((end, args),) = ends
    end(*args)
    assert [e["kind"] for e, _ in spool_events()] == ["start", "prompt", "target", "drafter", "drafter", "drafter", "output", "end"]


def test_a_refusing_gate_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_modules: SimpleNamespace, spool_events: Callable[[], Events]
) -> None:
    monkeypatch.setenv(plugin.GATE, "refuse")
    monkeypatch.setenv(plugin.CAPTURE, str(tmp_path / "spool"))

    def refuse(facts: Any, mode: str) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(gate, "at_start", refuse)
    worker = Worker()
    worker.load_model(plugin.loaded)
    with pytest.raises(SystemExit):
        worker.compile_or_warm_up_model()
    assert spool_events() == []


def test_loaded_by_nobody_that_is_a_worker() -> None:
    with pytest.raises(RuntimeError, match="use the worker extension"):
        plugin.calling_worker(sys._getframe())


class Qkv(nn.Module):
    num_heads, num_kv_heads, head_size = 4, 2, 3

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(24.0)[:, None].expand(24, 5).clone())


class GateUp(nn.Module):
    output_partition_sizes = (7, 7)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(14, 5))


class Latent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(6 + 4 + 2, 5))


class Layer(nn.Module):
    q_lora_rank, kv_lora_rank, qk_rope_head_dim = 6, 4, 2

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj, self.gate_up_proj, self.fused_qkv_a_proj, self.o_proj = Qkv(), GateUp(), Latent(), nn.Linear(3, 5, bias=False)


def test_fused_parameters_are_taken_apart() -> None:
    found = checkpoint_parameters(nn.ModuleDict({"layer": Layer()}))
    assert {name: value.shape[0] for name, value in found.items()} == {
        "layer.q_proj.weight": 12,
        "layer.k_proj.weight": 6,
        "layer.v_proj.weight": 6,
        "layer.gate_proj.weight": 7,
        "layer.up_proj.weight": 7,
        "layer.q_a_proj.weight": 6,
        "layer.kv_a_proj_with_mqa.weight": 6,
        "layer.o_proj.weight": 5,
    }
    assert found["layer.k_proj.weight"][:, 0].tolist() == [12.0, 13, 14, 15, 16, 17]


@pytest.mark.parametrize(
    ("embedding", "head", "expected"),
    [
        ("own", "own", ("own", "own")),
        ("target", "target", ("target", "target")),
        ("own", "embedding", ("own", "tied_to_own")),
        ("target", "embedding", ("target", "tied_to_target")),
    ],
)
def test_whose_tables(worker: Worker, embedding: str, head: str, expected: tuple[str, str]) -> None:
    drafter, target = worker.model_runner.drafter.model, worker.model_runner.model
    if embedding == "target":
        drafter.model.embed_tokens = target.model.embed_tokens
    if head == "target":
        drafter.lm_head = target.lm_head
    if head == "embedding":
        drafter.lm_head = drafter.model.embed_tokens  # type: ignore[assignment]  # what a tied head is
    found = shared_tables(find(worker))
    assert (found["embedding"], found["lm_head"]) == expected


def test_what_is_borrowed_is_not_held(worker: Worker) -> None:
    drafter, target = worker.model_runner.drafter.model, worker.model_runner.model
    loaded: dict[str, Tensor] = checkpoint_parameters(drafter)
    drafter.model.embed_tokens = target.model.embed_tokens
    facts = live_facts(worker, loaded)
    assert "model.embed_tokens.weight" not in facts.parameters
    assert facts.shared["embedding"] == "target"
    assert facts.flags["speculative_config"]["model"] == "drafter"


def test_target_ids(worker: Worker) -> None:
    assert target_ids(worker.model_runner.drafter.model).tolist() == [0, 3, 4]  # type: ignore[union-attr]  # it has a map
    unmapped = Drafter()
    unmapped.draft_id_to_target_id = None
    assert target_ids(unmapped) is None
