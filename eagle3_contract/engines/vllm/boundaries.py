"""Every boundary of the target, by hooks on its decoder layers: what a sweep records beside the slots.

vLLM's decoder layers hand on two tensors, what the last block made and the residual that it is yet to be added to; the boundary is
their sum (model_executor/models/interfaces.py:1608, where vLLM itself captures). Works in eager mode only: a compiled model does not
run these hooks.

Legend: N rows of the batch, G width of the target.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from eagle3_contract.engines.spool import copied

STATE_NAMES: Final = ("hidden_states", "x")
RESIDUAL_NAMES: Final = ("residual",)


class Boundaries:
    """``seen[i]`` is boundary i [N, G] of the last forward of the target, boundary L the un-normed output of the last of L layers."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self.seen: dict[int, Tensor] = {}
        self._handles: list[RemovableHandle] = []
        for index, layer in enumerate(layers):
            arguments = inspect.signature(layer.forward)
            state = _named(arguments, STATE_NAMES, layer)
            residual = _named(arguments, RESIDUAL_NAMES, layer)
            self._handles.append(layer.register_forward_pre_hook(self._before(index, arguments, state, residual), with_kwargs=True))
        self._handles.append(layers[-1].register_forward_hook(self._after(len(layers))))

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def take(self) -> dict[int, Tensor]:
        """What was seen since the last call."""
        seen, self.seen = self.seen, {}
        return seen

    def _before(self, index: int, arguments: inspect.Signature, state: str, residual: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = arguments.bind(*args, **kwargs).arguments
            self.seen[index] = _sum(given[state], given.get(residual))

        return hook

    def _after(self, index: int) -> Any:
        def hook(_: nn.Module, __: tuple[Any, ...], made: Any) -> None:
            self.seen[index] = _sum(*made[:2]) if isinstance(made, tuple) else _sum(made, None)

        return hook


def _named(arguments: inspect.Signature, names: tuple[str, ...], layer: nn.Module) -> str:
    for name in names:
        if name in arguments.parameters:
            return name
    raise RuntimeError(f"{type(layer).__name__}.forward has none of the arguments {', '.join(names)}; its boundaries cannot be swept")


def _sum(hidden: Tensor, residual: Tensor | None) -> Tensor:
    # Copied at once: the fused norm of the next layer adds into the residual in place.
    return copied(hidden if residual is None else hidden + residual)
