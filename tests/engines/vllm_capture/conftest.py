"""A fake worker, its spool, and the two modules of vLLM that are imported by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_vllm import Worker
from safetensors import safe_open

Events = list[tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def spool_events(tmp_path: Path) -> Callable[[], Events]:
    """The events written to ``tmp_path / "spool"``, in order."""

    def read() -> Events:
        found: Events = []
        for file in sorted((tmp_path / "spool").glob("*.safetensors")):
            with safe_open(file, "pt") as opened:
                found.append((json.loads(opened.metadata()["event"]), {name: opened.get_tensor(name) for name in opened.keys()}))  # noqa: SIM118
        return found

    return read


@pytest.fixture
def vllm_modules(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``vllm``, ``vllm.config`` and ``vllm.distributed`` as far as they are used; ``rank`` and ``last`` can be set."""
    state = SimpleNamespace(rank=0, last=True, registered={})
    registry = SimpleNamespace(
        models={
            "LlamaForCausalLMEagle3": SimpleNamespace(
                module_name="vllm.model_executor.models.llama_eagle3", class_name="Eagle3LlamaForCausalLM"
            ),
            "LlamaForCausalLM": SimpleNamespace(module_name="vllm.model_executor.models.llama", class_name="LlamaForCausalLM"),
        },
        register_model=lambda architecture, place: state.registered.update({architecture: place}),
    )
    package, config, distributed = ModuleType("vllm"), ModuleType("vllm.config"), ModuleType("vllm.distributed")
    vars(package)["ModelRegistry"] = registry
    vars(config)["CompilationMode"] = SimpleNamespace(NONE=0)
    vars(distributed)["get_tensor_model_parallel_rank"] = lambda: state.rank
    vars(distributed)["get_pp_group"] = lambda: SimpleNamespace(is_last_rank=state.last)
    for module in (package, config, distributed):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return state
