"""Hooks on the modules of SGLang's live drafter: what one forward is given and what it gives.

Both classes of SGLang 0.5.23 (models/llama_eagle3.py, models/kimi_k25_eagle3.py) are built alike: ``model.fc`` runs where the states are
wider than an embedding, then the layers (``layers``, or ``midlayer`` alone) get ``hidden_states``; the model returns what the head gets
and, in a list, what the next draft step is fed; ``logits_processor`` comes last.

Legend: N rows, C width of the concatenated states, H hidden size, M rows with logits, V draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from eagle3_contract.engines.sglang.calls import arguments
from eagle3_contract.engines.spool import copied


class DrafterForward:
    """One forward: its batch, its tensors by the names of the record (N rows each), and its logits [M, V]."""

    def __init__(self, forward_batch: Any) -> None:
        self.forward_batch = forward_batch
        self.tensors: dict[str, Tensor] = {}
        self.logits: Tensor | None = None


class DrafterHooks:
    """Puts hooks on a drafter; ``through`` is called with each forward once its logits are there."""

    def __init__(self, drafter: nn.Module, through: Callable[[DrafterForward], None]) -> None:
        self._through = through
        self._forward: DrafterForward | None = None
        self._fed: Tensor | None = None
        model = drafter.get_submodule("model")
        model.register_forward_pre_hook(self._begins, with_kwargs=True)
        model.register_forward_hook(self._ran, with_kwargs=True)
        model.get_submodule("fc").register_forward_hook(self._fused)
        first_layer(model).register_forward_pre_hook(self._enters, with_kwargs=True)
        drafter.get_submodule("logits_processor").register_forward_hook(self._scored)

    def _begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        given = arguments(module, args, kwargs)
        batch = given["forward_batch"]
        self._forward = forward = DrafterForward(batch)
        forward.tensors["input_ids"] = copied(given["input_ids"])
        forward.tensors["position_ids"] = copied(given["positions"])
        self._fed = copied(batch.spec_info.hidden_states)

    def _fused(self, _module: nn.Module, _args: tuple[Any, ...], made: Any) -> None:
        if self._forward is not None and self._fed is not None:
            # What reaches the norms before fc, not what they make of it: the states as the worker handed them over.
            self._forward.tensors["fc_in"] = self._fed
            self._forward.tensors["fc_out"] = copied(made[0] if isinstance(made, tuple) else made)

    def _enters(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._forward is not None:
            self._forward.tensors["hidden_in"] = copied(arguments(module, args, kwargs)["hidden_states"])

    def _ran(self, _module: nn.Module, _args: tuple[Any, ...], _kwargs: Mapping[str, Any], made: Any) -> None:
        if self._forward is not None:
            self._forward.tensors["final_normed"] = copied(made[0])
            self._forward.tensors["state_out"] = copied(made[1][0])

    def _scored(self, _module: nn.Module, _args: tuple[Any, ...], made: Any) -> None:
        forward, self._forward, self._fed = self._forward, None, None
        if forward is not None:
            forward.logits = copied(made.next_token_logits)
            self._through(forward)


def first_layer(model: nn.Module) -> nn.Module:
    """The first decoder layer of a drafter's inner model. Raises AttributeError if it has none under a known name."""
    layers = getattr(model, "layers", None)
    return layers[0] if isinstance(layers, nn.ModuleList) else model.get_submodule("midlayer")
