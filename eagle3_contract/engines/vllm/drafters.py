"""vLLM's EAGLE-3 drafter classes, each with one more thing to do: to tell the plugin when it has loaded its weights.

Registered through vLLM's own ``ModelRegistry.register_model``, which is what plugins are for; the classes of vLLM stay as they are. A class
is made when vLLM asks for ``eagle3_contract.engines.vllm.drafters:NAME``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Final

from torch import nn

MODELS: Final = "vllm.model_executor.models"
BASES: Final = {
    "Eagle3LlamaForCausalLM": "llama_eagle3",
    "Eagle3Qwen3ForCausalLM": "qwen3_eagle3",
    "Eagle3DeepseekV2ForCausalLM": "deepseek_eagle3",
}
"""Class and module, vLLM 0.32.0 (model_executor/models/registry.py:658-673)."""
_listeners: list[Callable[[nn.Module], None]] = []


def listen(heard: Callable[[nn.Module], None]) -> None:
    """``heard`` is called with every drafter that has just loaded its weights, before the backend repacks them. The last one counts."""
    _listeners[:] = [heard]


def watched(base: Any) -> type[nn.Module]:
    """A subclass of the same name that reports when its weights are loaded."""
    load = base.load_weights

    def load_weights(self: nn.Module, weights: Any) -> Any:
        made = load(self, weights)
        for heard in _listeners:
            heard(self)
        return made

    return type(base.__name__, (base,), {"load_weights": load_weights, "__module__": __name__, "__doc__": base.__doc__})


@functools.cache
def _made(name: str) -> type[nn.Module]:
    return watched(getattr(importlib.import_module(f"{MODELS}.{BASES[name]}"), name))


def __getattr__(name: str) -> type[nn.Module]:
    if name not in BASES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _made(name)
