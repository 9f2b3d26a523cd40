"""The entry point ``vllm.general_plugins``: capture and start-up gate, switched on by environment variables.

``EAGLE3_CONTRACT_CAPTURE=FOLDER`` records into a spool from the end of the start on, ``EAGLE3_CONTRACT_GATE=warn|refuse`` holds the loaded
engine against the contract beside its drafter. Without either, ``register`` returns at once. vLLM calls it in every process it starts
(plugins/__init__.py:77). How it gets at the worker without a patch: vLLM's registry is given subclasses of its drafters, the drafter that
loads its weights finds the worker among its callers, and ``compile_or_warm_up_model``, the last step of a start, is wrapped on that one
worker.
"""

from __future__ import annotations

import functools
import inspect
import os
from multiprocessing.util import Finalize
from pathlib import Path
from types import FrameType
from typing import Any, Final

from torch import Tensor, nn

from eagle3_contract.engines.vllm import drafters
from eagle3_contract.engines.vllm.parameters import checkpoint_parameters

CAPTURE: Final = "EAGLE3_CONTRACT_CAPTURE"
GATE: Final = "EAGLE3_CONTRACT_GATE"
SWEEP: Final = "EAGLE3_CONTRACT_SWEEP"
LIMIT: Final = "EAGLE3_CONTRACT_LIMIT"
LIMIT_BYTES: Final = 4 * 2**30
"""What a capture by environment variable writes at most, unless ``EAGLE3_CONTRACT_LIMIT`` says so: nobody watches the disk there."""
LAST_STEP: Final = "compile_or_warm_up_model"


def register() -> None:
    """Called by vLLM in each of its processes, possibly several times."""
    if not os.environ.get(CAPTURE) and not os.environ.get(GATE):
        return
    from vllm import ModelRegistry

    drafters.listen(loaded)
    for architecture, model in list(ModelRegistry.models.items()):
        name = getattr(model, "class_name", "")
        if name in drafters.BASES and getattr(model, "module_name", "").startswith(drafters.MODELS):
            ModelRegistry.register_model(architecture, f"{drafters.__name__}:{name}")


def loaded(drafter: nn.Module) -> None:
    """A drafter has its weights: keep them, and wait for the end of the worker's start."""
    worker = calling_worker(inspect.currentframe())
    parameters = checkpoint_parameters(drafter) if os.environ.get(GATE) else {}
    last = getattr(worker, LAST_STEP)

    @functools.wraps(last)
    def last_step(*args: Any, **kwargs: Any) -> Any:
        made = last(*args, **kwargs)
        vars(worker).pop(LAST_STEP, None)
        started(worker, parameters)
        return made

    vars(worker)[LAST_STEP] = last_step


def started(worker: Any, parameters: dict[str, Tensor]) -> None:
    """Everything is loaded and nothing served yet: the gate first, then the capture."""
    if os.environ.get(GATE):
        from eagle3_contract.engines import gate
        from eagle3_contract.engines.vllm.live_facts import live_facts

        mode = gate.mode_asked()
        if mode is not None:
            gate.at_start(live_facts(worker, parameters), mode)
    folder = os.environ.get(CAPTURE)
    if folder:
        _capture(worker, Path(folder))


def calling_worker(frame: FrameType | None) -> Any:
    """The worker among the callers: the object whose method is running there and that holds a ``model_runner``.

    Raises:
        RuntimeError: nobody of the callers is one.
    """
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(type(owner), LAST_STEP) and "model_runner" in getattr(owner, "__dict__", {}):
            return owner
        frame = frame.f_back
    raise RuntimeError(
        f"the drafter was not loaded by a worker with {LAST_STEP}: this vLLM starts otherwise than 0.32.0, use the worker extension"
    )


def _capture(worker: Any, folder: Path) -> None:
    from eagle3_contract.engines.vllm.extension import records
    from eagle3_contract.engines.vllm.session import Session

    if not records():
        return
    limit = int(os.environ.get(LIMIT) or LIMIT_BYTES)
    session = Session(worker, folder=str(folder), limit_bytes=limit, sweep=os.environ.get(SWEEP) == "1", serve=True)
    # Ends of processes that multiprocessing started pass by atexit, not by this.
    Finalize(None, session.stop, args=({},), exitpriority=100)
