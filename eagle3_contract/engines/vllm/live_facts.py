"""What the start-up gate is told, read from the living modules of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from eagle3_contract.engines.gate_facts import LiveFacts
from eagle3_contract.engines.vllm.hook_points import HookPoints, find, installed_version

EMBEDDING: Final = "embed_tokens"
HEAD: Final = "lm_head"
OFFSETS: Final = "draft_id_to_target_id"
SPECULATIVE: Final = ("method", "num_speculative_tokens")
SERVING: Final = ("dtype", "max_model_len", "enforce_eager", "quantization")


def live_facts(worker: Any, loaded: Mapping[str, Tensor]) -> LiveFacts:
    """The facts of a worker that has loaded everything.

    Args:
        loaded: the drafter's parameters as they were right after loading, by the names of ``checkpoint_parameters``.

    Raises:
        HookPointsMissing: this vLLM shows less than is needed.
    """
    points = find(worker)
    config = worker.vllm_config
    speculative, model, parallel = config.speculative_config, config.model_config, config.parallel_config
    shared = shared_tables(points)
    return LiveFacts(
        engine="vllm",
        version=installed_version(),
        runner="v1",
        drafter=speculative.draft_model_config.model,
        target=model.model,
        layers=model.get_total_num_hidden_layers(),
        layer_ids=tuple(points.layer_ids),
        parameters={name: value for name, value in loaded.items() if not _borrowed(name, shared) and OFFSETS not in name},
        shared=shared,
        target_ids=target_ids(points.drafter),
        flags={
            **{name: _plain(getattr(model, name, None)) for name in SERVING},
            "speculative_config": {
                "model": speculative.draft_model_config.model,
                **{name: getattr(speculative, name, None) for name in SPECULATIVE},
            },
        },
        tp=parallel.tensor_parallel_size,
        rank=worker.rank % parallel.tensor_parallel_size,
    )


def shared_tables(points: HookPoints) -> dict[str, str]:
    """Whose table the drafter uses as embedding and as head: ``own``, ``target``, ``tied_to_own`` or ``tied_to_target``."""
    inner = getattr(points.drafter, "model", points.drafter)
    mine, theirs = getattr(inner, EMBEDDING, None), _embedding(points.holder)
    head, target_head = getattr(points.drafter, HEAD, None), getattr(_language(points.target), HEAD, None)
    embedding = "target" if mine is not None and mine is theirs else "own"
    if head is not None and head is target_head:
        return {"embedding": embedding, "lm_head": "target"}
    tied = head is not None and head is mine
    return {"embedding": embedding, "lm_head": ("tied_to_target" if embedding == "target" else "tied_to_own") if tied else "own"}


def target_ids(drafter: nn.Module) -> Tensor | None:
    """The target token of each draft id as the engine maps it: [draft vocabulary] int64; None where it maps nothing.

    vLLM adds the stored value to the id, and holds zeros where the checkpoint had none (model_executor/models/llama_eagle3.py:385).
    """
    offsets = getattr(drafter, OFFSETS, None)
    if offsets is None:
        return None
    held: Tensor = offsets.detach().to("cpu", torch.int64)
    return held + torch.arange(held.shape[0])


def _borrowed(name: str, shared: Mapping[str, str]) -> bool:
    return (f"{EMBEDDING}." in name and shared["embedding"] != "own") or (f"{HEAD}." in name and shared["lm_head"] != "own")


def _embedding(holder: nn.Module) -> Any:
    return getattr(holder, EMBEDDING, getattr(holder, "embedding", None))


def _language(target: Any) -> Any:
    return target.get_language_model() if hasattr(target, "get_language_model") else target


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value).removeprefix("torch.")
