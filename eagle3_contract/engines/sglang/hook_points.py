"""What is hooked in SGLang, and whether this SGLang has it.

SGLang applies hooks by name and only logs a target that it cannot find (0.5.23, plugins/hook_registry.py, ``apply_hooks``): an engine of
another version would run on unrecorded. So every target is looked up first, and what is missing is named with the version.
"""

from __future__ import annotations

import importlib.metadata
import pkgutil
from collections.abc import Callable
from typing import Any, Final

TESTED: Final = "0.5.23"
WORKER: Final = "sglang.srt.speculative.eagle_worker_v2"
RESULTS: Final = "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"
STREAM: Final = "sglang.srt.layers.layer_boundary.residual.stream.ResidualStream"

BATCH: Final = f"{WORKER}.EAGLEWorkerV2.forward_batch_generation"
"""(worker, batch): one step of the scheduler, every forward of target and drafter inside it."""
VERIFY: Final = f"{WORKER}.EAGLEWorkerV2.verify"
"""(worker, batch), ``batch.spec_info`` is the drafted tree: the target's pass over it, and what was accepted."""
TREE: Final = f"{WORKER}.select_top_k_tokens"
"""(step, ..., topk): which rows of the last draft forward go on, and with which tokens."""
READY: Final = f"{WORKER}.EAGLEWorkerV2.init_cuda_graphs"
"""(worker): after it target and drafter are loaded, share what they will share and capture where they will capture (which is set after
``init_lm_head``, model_executor/model_runner_components/attention_backend_setup.py), and graphs are there or not; nothing was served."""
PREFILL_RESULT: Final = f"{RESULTS}.process_batch_result_prefill"
DECODE_RESULT: Final = f"{RESULTS}.process_batch_result_decode"
"""(processor, batch, result): the scheduler takes over what a batch gave."""

PARALLEL: Final = "sglang.srt.runtime_context.get_parallel"
"""Called, not hooked: the place of this process among the ranks."""

FOR_GATE: Final = (READY, PARALLEL)
FOR_CAPTURE: Final = (PARALLEL, BATCH, VERIFY, TREE, READY, PREFILL_RESULT, DECODE_RESULT)
FOR_SWEEP: Final = (f"{STREAM}.snapshot",)
"""Called, not hooked, where every boundary is recorded."""


class HookPointsMissing(RuntimeError):
    """This SGLang lacks something that is hooked. ``missing`` are the dotted names."""

    def __init__(self, version: str, missing: tuple[str, ...]) -> None:
        self.version, self.missing = version, missing
        super().__init__(f"SGLang {version} has no {', '.join(missing)}; hooks are written for SGLang {TESTED}")


def installed_version() -> str:
    """The version of SGLang in this environment. Raises HookPointsMissing if there is none."""
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        raise HookPointsMissing("(not installed)", ("sglang",)) from None


def missing(targets: tuple[str, ...], resolve: Callable[[str], Any] = pkgutil.resolve_name) -> tuple[str, ...]:
    """Those of the dotted names that cannot be found. Importing them imports SGLang's modules."""
    found = []
    for target in targets:
        try:
            resolve(target)
        except (ImportError, AttributeError):
            found.append(target)
    return tuple(found)


def require(targets: tuple[str, ...], *, version: str | None = None, resolve: Callable[[str], Any] = pkgutil.resolve_name) -> None:
    """Raise HookPointsMissing if one of the targets is not there."""
    lacking = missing(targets, resolve)
    if lacking:
        raise HookPointsMissing(version or installed_version(), lacking)
