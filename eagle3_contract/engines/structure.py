"""Where the residual stream of a target can be seen: its decoder layers, its embedding and its final norm, found by structure.

Llama, Qwen, Mistral, Gemma and DeepSeek models keep them as ``model.layers`` and ``model.norm``, others as ``transformer.h`` and
``transformer.ln_f`` or ``gpt_neox.layers`` and ``gpt_neox.final_layer_norm``, multimodal ones below ``language_model``. What all have
in common: one list of as many modules as the config has layers, and beside it, in the same parent, one norm that comes after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from torch import nn

from eagle3_contract.engines.rules import tool_error

_FOREIGN: Final = ("vision", "visual", "audio", "image", "encoder", "speech")
"""Parts of a multimodal model that are no text decoder."""
_NORM_NAMES: Final = ("norm", "final_norm", "ln_f", "final_layernorm", "final_layer_norm")


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The modules around the residual stream. ``path`` is the name of the list of layers in the model."""

    path: str
    layers: tuple[nn.Module, ...]
    final_norm: nn.Module
    embedding: nn.Module


def layer_count(config: Any) -> int:
    """Decoder layers of the (text) model that a transformers config describes. Raises ToolError if it does not say."""
    text = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    count = getattr(text, "num_hidden_layers", None)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise tool_error("engine.target-structure", f"the config has num_hidden_layers {count!r}")
    return count


def find_stream(model: nn.Module, layers: int) -> Stream:
    """The stream of a model with that many decoder layers.

    Raises:
        ToolError: ``engine.target-structure``, with what was found, if there is not exactly one list of layers and one norm after it.
    """
    lists = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == layers and not any(word in name.lower() for word in _FOREIGN)
    }
    # A list inside of another one's modules (experts, say) is no list of layers.
    outer = [name for name in lists if not any(name.startswith(f"{other}.") for other in lists)]
    if len(outer) != 1:
        found = ", ".join(outer) or "none"
        raise tool_error("engine.target-structure", f"{type(model).__name__}: lists of {layers} modules: {found}; one was expected")
    path = outer[0]
    parent = model.get_submodule(path.rpartition(".")[0])
    return Stream(path, tuple(lists[path]), _final_norm(model, parent, path.rpartition(".")[2]), _embedding(model))


def _final_norm(model: nn.Module, parent: nn.Module, list_name: str) -> nn.Module:
    children = list(parent.named_children())
    after = children[[name for name, _ in children].index(list_name) + 1 :]
    norms = {name: child for name, child in after if "norm" in type(child).__name__.lower() or name in _NORM_NAMES}
    named = [name for name in norms if name in _NORM_NAMES]
    chosen = named if len(named) == 1 else list(norms)
    if len(chosen) != 1:
        found = ", ".join(norms) or "none"
        raise tool_error("engine.target-structure", f"{type(model).__name__}: norms after {list_name}: {found}; one was expected")
    return norms[chosen[0]]


def _embedding(model: nn.Module) -> nn.Module:
    getter = getattr(model, "get_input_embeddings", None)
    embedding = getter() if callable(getter) else None
    if not isinstance(embedding, nn.Module) or not hasattr(embedding, "weight"):
        raise tool_error("engine.target-structure", f"{type(model).__name__} does not say which module is its embedding")
    return embedding
