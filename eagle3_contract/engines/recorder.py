"""Recording the residual stream of a running target by forward hooks.

A pre-hook on decoder layer n sees boundary n, the input of that layer; a pre-hook on the final norm sees boundary N, and a hook on its
output sees ``final_norm``. (``output_hidden_states`` of transformers would give the normed state under the number N and says
nothing about what a hook sees.) States are copied at once: a target whose layers update the stream in place would otherwise give one
and the same tensor under every number.

Legend: T tokens, G width of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from eagle3_contract.engines.rules import tool_error
from eagle3_contract.engines.structure import Stream
from eagle3_contract.model.states import FINAL_NORM, State, state_name

_INPUT_NAMES = ("hidden_states", "input", "x")


class StreamRecorder:
    """A context manager: hooks are on the model inside the block, and removed however it ends.

    Use it for one forward of one sequence at a time; ``take`` gives what that forward showed and makes room for the next.
    """

    def __init__(self, stream: Stream, wanted: Collection[State] | None = None) -> None:
        """``wanted`` limits what is copied; None copies every boundary and ``final_norm``."""
        self._stream = stream
        self._wanted = None if wanted is None else set(wanted)
        self._states: dict[State, Tensor] = {}
        self._seen: list[State] = []
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> Self:
        for n, layer in enumerate(self._stream.layers):
            self._handles.append(layer.register_forward_pre_hook(self._before(n), with_kwargs=True))
        norm = self._stream.final_norm
        self._handles.append(norm.register_forward_pre_hook(self._before(len(self._stream.layers)), with_kwargs=True))
        self._handles.append(norm.register_forward_hook(self._after_norm))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._handles:
            self._handles.pop().remove()

    def take(self, tokens: int) -> dict[State, Tensor]:
        """The states [T, G] of the forward that just ran, on the target's device, in the order of the stream.

        Raises:
            ToolError: ``engine.hooks-complete`` if a layer or the norm did not run exactly once and in order, or the stream is not
                [1, T, G].
        """
        states, seen = self._states, self._seen
        self._states, self._seen = {}, []
        wanted: list[State] = [*range(len(self._stream.layers) + 1), FINAL_NORM]
        if seen != wanted:
            at = next((i for i, (a, b) in enumerate(zip(seen, wanted, strict=False)) if a != b), min(len(seen), len(wanted)))
            found = state_name(seen[at]) if at < len(seen) else "nothing"
            due = state_name(wanted[at]) if at < len(wanted) else "nothing"
            raise tool_error("engine.hooks-complete", f"the forward of {self._stream.path} showed {found} where {due} was due")
        for state, tensor in states.items():
            if tensor.dim() != 3 or tensor.shape[:2] != (1, tokens):
                shape = f"{state_name(state)} has the shape {list(tensor.shape)}, not [1, {tokens}, width]"
                raise tool_error("engine.hooks-complete", shape)
        return {state: tensor[0] for state, tensor in states.items()}

    def _before(self, n: int) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._record(n, _input_of(module, args, kwargs))

        return hook

    def _after_norm(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not isinstance(output, Tensor):
            raise tool_error("engine.hooks-complete", f"the final norm {type(module).__name__} gives a {type(output).__name__}")
        self._record(FINAL_NORM, output)

    def _record(self, state: State, tensor: Tensor) -> None:
        self._seen.append(state)
        if self._wanted is None or state in self._wanted:
            self._states[state] = tensor.detach().clone()


def _input_of(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The stream among the arguments: the first positional one, or the one named ``hidden_states``."""
    found = args[0] if args else next((kwargs[name] for name in _INPUT_NAMES if name in kwargs), None)
    if not isinstance(found, Tensor):
        raise tool_error("engine.hooks-complete", f"{type(module).__name__} is called with a {type(found).__name__} for its input")
    return found


def repeated_states(states: Mapping[State, Tensor]) -> list[tuple[State, State]]:
    """Pairs of states [T, G] that are equal bit for bit: the sign of a capture that stored references."""
    groups: dict[bytes, list[State]] = {}
    pairs: list[tuple[State, State]] = []
    for state, tensor in states.items():
        rows = tensor[[0, len(tensor) // 2, len(tensor) - 1]].cpu().contiguous().view(torch.uint8).numpy().tobytes()
        alike = groups.setdefault(rows, [])
        # Equal bits, so that NaN equals itself here: an alias full of NaN is an alias.
        pairs += [(other, state) for other in alike if torch.equal(states[other].view(torch.uint8), tensor.view(torch.uint8))]
        alike.append(state)
    return pairs
