"""Hooks on SGLang's live target: the states that it captures for the drafter, and on request every boundary.

The inner model that has ``layers_to_capture`` returns the final normed states and, beside them, the captured ones: a list, or one tensor
of them side by side (SGLang 0.5.23, layers/aux_hidden_states.py). Entries of ``layers_to_capture`` are boundaries: k is the input of layer
k (models/llama.py:939-941). Without capture (``use_aux_hidden_state: false``) the final normed states are what is fed.

The residual stream at the entry of a layer is kept by the batch (layers/layer_boundary/residual), in models of an older style it is the
sum of the arguments ``hidden_states`` and ``residual``.

Legend: N rows, G width of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from eagle3_contract.engines.sglang.calls import arguments
from eagle3_contract.engines.spool import copied

FINAL_NORM = "final_norm"


class NoCapturingModel(RuntimeError):
    """No module of the target has ``layers_to_capture``."""


class TargetForward:
    """One forward: its batch, and its tensors by the names of the record (N rows each)."""

    def __init__(self, forward_batch: Any) -> None:
        self.forward_batch = forward_batch
        self.tensors: dict[str, Tensor] = {}


class TargetHooks:
    """Puts hooks on a target; ``through`` is called with each forward that ran rows."""

    def __init__(self, target: nn.Module, through: Callable[[TargetForward], None], *, sweep: bool) -> None:
        self._through = through
        self._seen: dict[str, Tensor] = {}
        model = capturing_model(target)
        model.register_forward_hook(self._ran, with_kwargs=True)
        if sweep:
            layers = [layer for layer in model.get_submodule("layers").children() if any(True for _ in layer.parameters())]
            for n, layer in enumerate(layers):
                layer.register_forward_pre_hook(self._entry(n), with_kwargs=True)
            model.get_submodule("norm").register_forward_pre_hook(self._last(len(layers)), with_kwargs=True)

    def _ran(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> None:
        seen, self._seen = self._seen, {}
        given = arguments(module, args, kwargs)
        forward = TargetForward(given["forward_batch"])
        ids = given.get("input_ids")
        forward.tensors["input_ids"] = copied(forward.forward_batch.input_ids if ids is None else ids)
        forward.tensors["position_ids"] = copied(given["positions"])
        final, captured = made if isinstance(made, tuple) else (made, None)
        for i, state in enumerate(slots(final, captured)):
            forward.tensors[f"slot.{i}"] = copied(state)
        forward.tensors.update(seen)
        forward.tensors[FINAL_NORM] = copied(final)
        self._through(forward)

    def _entry(self, n: int) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            given = arguments(module, args, kwargs)
            self._seen[f"boundary.{n}"] = copied(stream_at_entry(given))

        return hook

    def _last(self, n: int) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Any, ...], _kwargs: Mapping[str, Any]) -> None:
            residual = args[1] if len(args) > 1 else None
            self._seen[f"boundary.{n}"] = copied(args[0] if residual is None else args[0] + residual)

        return hook


def capturing_model(target: nn.Module) -> nn.Module:
    """The inner model that captures states. Raises NoCapturingModel."""
    for module in target.modules():
        if hasattr(module, "layers_to_capture") and hasattr(module, "layers"):
            return module
    raise NoCapturingModel(f"no module of {type(target).__name__} has layers_to_capture")


def slots(final_NG: Tensor, captured: Any) -> list[Tensor]:
    """The states that are fed, in their order, each [N, G]."""
    if captured is None:
        return [final_NG]
    if isinstance(captured, Tensor):
        return list(torch.split(captured, final_NG.shape[-1], dim=-1))
    return list(captured)


def stream_at_entry(given: Mapping[str, Any]) -> Tensor:
    """The residual stream [N, G] at the entry of a decoder layer, from the arguments that it is called with."""
    hidden = given["hidden_states"]
    stream = getattr(given.get("forward_batch"), "residual_stream", None)
    if stream is not None:
        found = stream.snapshot(hidden)
    else:
        residual = given.get("residual")
        found = hidden if residual is None else hidden + residual
    if not isinstance(found, torch.Tensor):
        raise TypeError(f"the residual stream at the entry of a layer is a {type(found).__name__}")
    return found
