"""SGLang's plugin (entry point ``sglang.srt.plugins``): records, or checks at start, when an environment variable says so.

========================  ==================================================================================================
EAGLE3_CONTRACT_CAPTURE   the spool folder to record into; eager mode only, for hooks do not run in a replayed graph
EAGLE3_CONTRACT_SWEEP     ``1``: record every boundary of the target, too
EAGLE3_CONTRACT_LABELS    a JSON file: request id to ``{"prompt_id", "sample", "run"}``; others are called by their request id
EAGLE3_CONTRACT_LIMIT     bytes after which recording ends
EAGLE3_CONTRACT_GATE      ``warn`` or ``refuse``: compare the loaded drafter with its contract (eagle3_contract.engines.gate)
========================  ==================================================================================================

Without the first and the last nothing is hooked. SGLang logs an exception of a plugin and runs on; what must stop it is a SystemExit.
"""

from __future__ import annotations

import importlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any, Final

from contract.errors import UserError
from eagle3_contract.engines.sglang import hook_points
from eagle3_contract.engines.sglang.drafter_hooks import DrafterHooks
from eagle3_contract.engines.sglang.facts import start_facts, tensor_rank
from eagle3_contract.engines.sglang.gate_facts import check_at_start, mode_asked
from eagle3_contract.engines.sglang.probe import Label, Probe
from eagle3_contract.engines.sglang.target_hooks import TargetHooks
from eagle3_contract.engines.spool import Spool

CAPTURE: Final = "EAGLE3_CONTRACT_CAPTURE"
SWEEP: Final = "EAGLE3_CONTRACT_SWEEP"
LABELS: Final = "EAGLE3_CONTRACT_LABELS"
LIMIT: Final = "EAGLE3_CONTRACT_LIMIT"
GATE: Final = "EAGLE3_CONTRACT_GATE"


def register() -> None:
    """Called by SGLang in each of its processes, before anything is loaded."""
    folder = os.environ.get(CAPTURE)
    if not folder and not os.environ.get(GATE):
        return
    try:
        mode = mode_asked() if os.environ.get(GATE) else None
        if mode:
            hook_points.require(hook_points.FOR_GATE)
        if folder:
            hook_points.require(hook_points.FOR_CAPTURE + (hook_points.FOR_SWEEP if _sweep() else ()))
    except (UserError, hook_points.HookPointsMissing) as error:
        raise SystemExit(f"eagle3-contract: {error}") from None
    registry = importlib.import_module("sglang.srt.plugins.hook_registry")
    if mode is not None:
        registry.HookRegistry.register(hook_points.READY, partial(_gate, mode), registry.HookType.AFTER)
    if folder:
        record(registry, folder)


def _gate(mode: str, _result: None, worker: Any) -> None:
    check_at_start(worker.draft_worker, mode)


def record(registry: Any, folder: str) -> Probe:
    """Register everything that records into a folder."""
    limit = os.environ.get(LIMIT)
    spool = Spool(folder, limit_bytes=int(limit) if limit else None)
    probe = Probe(spool, read_labels(os.environ.get(LABELS)))
    around, after = registry.HookType.AROUND, registry.HookType.AFTER
    for target, hook, kind in (
        (hook_points.BATCH, probe.run_batch, around),
        (hook_points.VERIFY, probe.verify, around),
        (hook_points.TREE, probe.tree, after),
        (hook_points.PREFILL_RESULT, probe.take_result, around),
        (hook_points.DECODE_RESULT, probe.take_result, around),
        (hook_points.READY, lambda _, worker: attach(worker, spool, probe), after),
    ):
        registry.HookRegistry.register(target, hook, kind)
    return probe


def attach(worker: Any, spool: Spool, probe: Probe) -> None:
    """Hook the live models, once they are ready to serve."""
    if tensor_rank() != 0:
        return  # every rank has the same rows; the states of a rank are whole at a layer's entry
    if graphs(worker):
        raise SystemExit(f"eagle3-contract: {CAPTURE} records in eager mode only: start SGLang with --disable-cuda-graph")
    spool.event("start", **start_facts(worker, "eager"))
    TargetHooks(worker.target_worker.model_runner.model, probe.target, sweep=_sweep())
    DrafterHooks(worker.draft_worker.draft_runner.model, probe.drafter)


def graphs(worker: Any) -> bool:
    """Whether a captured graph stands in for one of the forwards."""
    drafting = worker.draft_worker
    return any(
        getattr(owner, name, None) is not None
        for owner, name in (
            (worker.target_worker.model_runner, "decode_cuda_graph_runner"),
            (drafting, "cuda_graph_runner"),
            (drafting, "cuda_graph_runner_for_draft_extend"),
        )
    )


def read_labels(path: str | None) -> dict[str, Label]:
    """The labels of requests from their file; none without one."""
    if not path:
        return {}
    read: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    return {request: Label(str(of["prompt_id"]), of["sample"], str(of["run"])) for request, of in read.items()}


def _sweep() -> bool:
    return os.environ.get(SWEEP) == "1"
