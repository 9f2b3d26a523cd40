"""The start-up gate inside SGLang: what is really loaded, handed to the comparison with the contract."""

from __future__ import annotations

import importlib
from typing import Any

from eagle3_contract.engines.sglang.facts import ENGINE, layer_ids, parameters, sharing
from eagle3_contract.engines.sglang.hook_points import installed_version


def check_at_start(worker: Any, mode: str) -> None:
    """Compare the drafter that a draft worker has loaded with the contract beside it, and warn or refuse.

    Args:
        worker: SGLang's EagleDraftWorker after ``init_lm_head``.
        mode: ``warn`` or ``refuse``.
    """
    gate = importlib.import_module("eagle3_contract.engines.gate")
    gate.at_start(gate.LiveFacts(**live_facts(worker)), mode)


def live_facts(worker: Any) -> dict[str, Any]:
    """The fields of ``eagle3_contract.engines.gate.LiveFacts``."""
    target_runner = worker.target_worker.model_runner
    drafter = worker.draft_runner.model
    ids = layer_ids(target_runner.model)
    return {
        "engine": ENGINE,
        "version": installed_version(),
        "runner": None,
        "drafter": str(worker.server_args.speculative_draft_model_path),
        "target": str(worker.server_args.model_path),
        "layers": int(target_runner.model_config.num_hidden_layers),
        "layer_ids": None if ids is None else tuple(ids),
        "parameters": parameters(drafter),
        "shared": sharing(worker),
        "target_ids": worker.hot_token_id,
    }
