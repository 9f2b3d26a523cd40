"""What an engine's plugin tells the gate after the engine has loaded target and drafter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFacts:
    """A running engine as its live modules show it; nothing here is read from the drafter's config.

    Attributes:
        engine: ``vllm`` or ``sglang``.
        version: as the engine says it; a local part (``0.32.0+cpu``) is left out of comparisons.
        runner: ``v1`` or ``v2`` for vLLM, None where the engine has one.
        drafter: the drafter's folder as the engine was given it.
        target: the target's folder (or its name, where the engine was given one).
        layers: decoder layers of the running target.
        layer_ids: where the running target captures, as it holds it after everything was set, in whatever order: vLLM's
            ``model.aux_hidden_state_layers``, SGLang's ``model.layers_to_capture`` (both number the *input* of layer n). Empty or
            None: it captures nothing, and its normed last state is fed.
        parameters: the drafter's parameters by the names of a checkpoint, fused ones taken apart, on any device; only what the drafter
            holds itself, without what it borrowed from the target. A tensor without elements means that its values are not to be had.
        shared: whose table is used in the places ``embedding`` and ``lm_head``: ``own``, ``target``, ``tied_to_own`` or
            ``tied_to_target``.
        target_ids: [draft vocabulary], the target token that the engine makes of each draft id; None: it maps nothing.
        flags: serving flags as the engine's Python API names them.
        tp, rank: size of the tensor parallel group, and the place in it: parameters may be slices.
    """

    engine: str
    version: str
    runner: str | None
    drafter: str | Path
    target: str | Path
    layers: int
    layer_ids: tuple[int, ...] | None
    parameters: Mapping[str, Tensor]
    shared: Mapping[str, str]
    target_ids: Tensor | None
    flags: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    tp: int = 1
    rank: int = 0

    @property
    def reference(self) -> str:
        """``vllm[v1]==0.32.0``."""
        runner = f"[{self.runner}]" if self.runner else ""
        return f"{self.engine}{runner}=={self.version.partition('+')[0]}"
