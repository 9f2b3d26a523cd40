"""The plugin: nothing without its variables, everything hooked with them, and loud where SGLang would only log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from sglang_toys import Drafter, Target, live_worker

from eagle3_contract.engines.sglang import hook_points, plugin
from eagle3_contract.engines.spool import Spool
from eagle3_contract.engines.spool_read import open_spool

VARIABLES = (plugin.CAPTURE, plugin.SWEEP, plugin.LABELS, plugin.LIMIT, plugin.GATE)


class Registry(ModuleType):
    """SGLang's hook registry, module and class in one."""

    def __init__(self) -> None:
        super().__init__("hook_registry")
        self.hooks: dict[str, tuple[Any, str]] = {}
        self.HookType = SimpleNamespace(AROUND="around", AFTER="after", BEFORE="before", REPLACE="replace")
        self.HookRegistry = self

    def register(self, target: str, hook: Any, kind: str) -> None:
        self.hooks[target] = (hook, kind)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """An SGLang that has everything that is hooked."""
    made = Registry()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hook_points, "require", lambda targets: None)
    monkeypatch.setitem(sys.modules, "sglang.srt.plugins.hook_registry", made)
    monkeypatch.setattr(plugin, "tensor_rank", lambda: 0)
    monkeypatch.setattr("eagle3_contract.engines.sglang.facts.installed_version", lambda: "0.5.23")
    return made


def test_nothing_is_hooked_without_a_variable(registry: Registry) -> None:
    plugin.register()
    assert registry.hooks == {}


def test_a_capture_hooks_what_is_required_and_replaces_nothing(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(plugin.CAPTURE, str(tmp_path / "spool"))
    plugin.register()
    assert set(registry.hooks) == set(hook_points.FOR_CAPTURE) - {hook_points.PARALLEL}
    assert {kind for _, kind in registry.hooks.values()} == {"around", "after"}


def test_the_gate_alone_hooks_the_loaded_drafter_alone(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "mode_asked", lambda: "refuse")
    asked: list[Any] = []
    monkeypatch.setattr(plugin, "check_at_start", lambda worker, mode: asked.append((worker, mode)))
    monkeypatch.setenv(plugin.GATE, "refuse")
    plugin.register()
    assert set(registry.hooks) == {hook_points.READY}
    hook, kind = registry.hooks[hook_points.READY]
    assert kind == "after"
    assert hook(None, SimpleNamespace(draft_worker="drafting")) is None
    assert asked == [("drafting", "refuse")]


def test_a_mode_that_is_none_stops_the_engine(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.delenv(plugin.CAPTURE, raising=False)
    monkeypatch.setenv(plugin.GATE, "maybe")
    with pytest.raises(SystemExit, match="eagle3-contract: EAGLE3_CONTRACT_GATE is 'maybe'"):
        plugin.register()


def test_missing_hook_points_stop_the_engine(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lacking(targets: tuple[str, ...]) -> None:
        raise hook_points.HookPointsMissing("0.4.0", targets[:1])

    monkeypatch.setattr(hook_points, "require", lacking)
    monkeypatch.setenv(plugin.CAPTURE, str(tmp_path / "spool"))
    with pytest.raises(SystemExit, match=r"SGLang 0\.4\.0 has no sglang\.srt"):
        plugin.register()
    assert registry.hooks == {}
    assert not (tmp_path / "spool").exists()


def test_a_sweep_requires_what_a_sweep_calls(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(hook_points, "require", asked.append)
    monkeypatch.setenv(plugin.CAPTURE, str(tmp_path / "spool"))
    plugin.register()
    monkeypatch.setenv(plugin.SWEEP, "1")
    plugin.register()
    assert asked == [hook_points.FOR_CAPTURE, hook_points.FOR_CAPTURE + hook_points.FOR_SWEEP]


def ready(registry: Registry, monkeypatch: pytest.MonkeyPatch, spool: Path) -> Any:
    monkeypatch.setenv(plugin.CAPTURE, str(spool))
    plugin.register()
    return registry.hooks[hook_points.READY][0]


def test_models_are_hooked_when_they_are_ready(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target, drafter = Target(), Drafter()
    ready(registry, monkeypatch, tmp_path / "spool")(None, live_worker(target, drafter))
    start = open_spool(tmp_path / "spool").start
    assert (start.engine, start.version, start.mode, start.layer_ids) == ("sglang", "0.5.23", "eager", [0, 2, 4])
    assert (start.target_class, start.drafter_class, start.dtype) == ("Target", "Drafter", "float32")
    assert start.flags["speculative_num_steps"] == "3"
    assert "quantization" not in start.flags
    assert target.model._forward_hooks
    assert drafter.model._forward_hooks


@pytest.mark.parametrize("where", ["decode_cuda_graph_runner", "cuda_graph_runner", "cuda_graph_runner_for_draft_extend"])
def test_graphs_are_refused(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str) -> None:
    worker = live_worker(Target(), Drafter())
    owner = worker.target_worker.model_runner if where == "decode_cuda_graph_runner" else worker.draft_worker
    setattr(owner, where, object())
    with pytest.raises(SystemExit, match="--disable-cuda-graph"):
        ready(registry, monkeypatch, tmp_path / "spool")(None, worker)


def test_other_ranks_record_nothing(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = Target()
    monkeypatch.setattr(plugin, "tensor_rank", lambda: 1)
    ready(registry, monkeypatch, tmp_path / "spool")(None, live_worker(target, Drafter()))
    assert list((tmp_path / "spool").iterdir()) == []
    assert not target.model._forward_hooks


def test_labels_and_limit_come_from_the_environment(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({"r": {"prompt_id": "p", "sample": None, "run": "batched"}}))
    assert plugin.read_labels(str(labels)) == {"r": plugin.Label("p", None, "batched")}
    assert plugin.read_labels(None) == {}
    monkeypatch.setenv(plugin.LIMIT, "1")
    seen: list[int | None] = []

    class Watched(Spool):
        def __init__(self, folder: str, *, limit_bytes: int | None = None) -> None:
            seen.append(limit_bytes)

    monkeypatch.setattr(plugin, "Spool", Watched)
    plugin.record(registry, str(tmp_path / "spool"))
    assert seen == [1]


def test_what_an_engine_process_imports_for_a_capture() -> None:
    """torch, safetensors, the standard library, and of ours what needs no more: SGLang's environment has nothing else for sure."""
    code = (
        "import sys; import eagle3_contract.engines.sglang.plugin, eagle3_contract.engines.sglang.runner; "
        "print([m for m in ('msgspec', 'click', 'rich', 'structlog', 'transformers', 'yaml', 'jsonschema') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
