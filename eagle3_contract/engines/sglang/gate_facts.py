"""The start-up gate inside SGLang: what is really loaded, handed to the comparison with the contract."""

from __future__ import annotations

import importlib
from typing import Any

from eagle3_contract.engines.sglang.facts import ENGINE, flags_set, layer_ids, parameters, sharing, tensor_rank
from eagle3_contract.engines.sglang.hook_points import installed_version


def mode_asked() -> str | None:
    """The mode that the environment asks for; None if the gate is off.

    Raises:
        UsageError: ``gate.mode``.
    """
    mode: str | None = importlib.import_module("eagle3_contract.engines.gate").mode_asked()
    return mode


def check_at_start(worker: Any, mode: str) -> None:
    """Compare the drafter that a draft worker has loaded with the contract beside it, and warn or refuse.

    Args:
        worker: SGLang's EagleDraftWorker, ready to serve.
        mode: ``warn`` or ``refuse``.

    Raises:
        GateRefused: the engine must not go on.
    """
    gate = importlib.import_module("eagle3_contract.engines.gate")
    gate.at_start(gate.LiveFacts(**live_facts(worker)), mode)


def live_facts(worker: Any) -> dict[str, Any]:
    """The fields of ``eagle3_contract.engines.gate.LiveFacts``."""
    target_runner = worker.target_worker.model_runner
    args = worker.server_args
    shared = sharing(worker)
    borrowed = {"model.embed_tokens.weight": shared["embedding"], "lm_head.weight": shared["lm_head"]}
    return {
        "engine": ENGINE,
        "version": installed_version(),
        "runner": None,
        "drafter": str(args.speculative_draft_model_path),
        "target": str(args.model_path),
        "layers": int(target_runner.model_config.num_hidden_layers),
        "layer_ids": tuple(layer_ids(target_runner.model) or ()),
        "parameters": {n: p for n, p in parameters(worker.draft_runner.model).items() if borrowed.get(n, "own") == "own"},
        "shared": shared,
        "target_ids": worker.hot_token_id,
        "flags": flags_set(args),
        "tp": int(args.tp_size),
        "rank": tensor_rank(),
    }
