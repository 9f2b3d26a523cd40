"""An engine in a process group of its own: its log, its limits, and its end.

The engine never runs in this process: it may need another interpreter, it may crash, hang or leave processes behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import contract
import eagle3_contract
from contract.errors import ToolError
from contract.files.names import shown
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.engines.rules import RULES, tool_error

SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
POLL_S: Final = 0.1
TAIL_BYTES: Final = 256 * 1024
"""End of the log in which the reason is looked for."""
ENDS_S: Final = 30
"""How long the supervisor may take to end a group (it gives up to 10 s)."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")
_PREFIX: Final = re.compile(r"^\([^)]{1,60}\)\s+(?:(?:ERROR|CRITICAL)\s+\S+ \S+ \[[^\]]*\] ?)?")


@contextlib.contextmanager
def package_path() -> Iterator[str]:
    """A folder from which another interpreter can import these two packages, and nothing else of this environment."""
    with tempfile.TemporaryDirectory(prefix="contract-packages-") as folder:
        for package in (contract, eagle3_contract):
            place = Path(str(package.__file__)).resolve().parent
            (Path(folder) / place.name).symlink_to(place, target_is_directory=True)
        yield folder


def environment(path: str, more: Mapping[str, str]) -> dict[str, str]:
    """The child's environment: ours, ``path`` first on its module path, and ``more`` where nothing is set."""
    mine = dict(os.environ)
    inherited = [os.path.abspath(p) for p in mine.get("PYTHONPATH", "").split(os.pathsep) if p]  # it runs in another folder
    return {**more, **mine, "PYTHONPATH": os.pathsep.join([path, *inherited]), "PYTHONUNBUFFERED": "1"}


def run_child(
    command: Sequence[str], *, engine: str, env: Mapping[str, str], folder: Path, hint: str = "", limits: Limits = DEFAULT_LIMITS
) -> None:
    """Run a command to its end. Its log is kept if it fails, and its process group is ended in any case.

    Args:
        command: program and arguments.
        engine: its name, for messages and for the name of the log.
        env: its environment.
        folder: its working directory.
        hint: appended to the remedy of a failure.
        limits: ``engine_seconds`` and ``engine_log_bytes``.

    Raises:
        ToolError: ``engine.failed`` with the last exception of the log, or ``engine.timeout``.
        LimitExceeded: ``engine_log_bytes``.
    """
    handle, name = tempfile.mkstemp(prefix=f"contract-{engine}-", suffix=".log")
    log = Path(name)
    with os.fdopen(handle, "wb") as file, contextlib.ExitStack() as stack:
        stack.callback(log.unlink, missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), *command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=folder,
            start_new_session=True,
        )
        try:
            _watch(process, engine, log, limits)
        except ToolError:
            stack.pop_all()
            raise
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(ENDS_S)
        if process.returncode != 0:
            stack.pop_all()
            raise tool_error(
                "engine.failed",
                f"{engine} ended with exit code {process.returncode}: {reason(log)}",
                fix=f"{RULES['engine.failed'].remedy[:-1]}: {log}.{hint and ' ' + hint}",
            )


def _watch(process: subprocess.Popen[bytes], engine: str, log: Path, limits: Limits) -> None:
    until = time.monotonic() + limits.engine_seconds
    while process.poll() is None:
        limits.enforce("engine_log_bytes", log.stat().st_size, what=f"the log of {engine}")
        if time.monotonic() > until:
            raise tool_error(
                "engine.timeout", f"{engine} did not finish within {limits.engine_seconds} s (limit engine_seconds); its log is {log}"
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)


def reason(log: Path) -> str:
    """The last exception that a log shows, else its last line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return reason_of(file.read().decode(errors="replace"))


def reason_of(text: str) -> str:
    """``reason`` of a log's text."""
    lines = [_PREFIX.sub("", line) for line in text.splitlines() if line.strip()]
    if not lines:
        return "it wrote nothing"
    begins = max((i for i, line in enumerate(lines) if _TRACEBACK in line), default=None)
    if begins is not None:
        found = next((line for line in lines[begins + 1 :] if _EXCEPTION.fullmatch(line)), None)
        if found is not None:
            return shown(found, 400)
    return shown(lines[-1].strip(), 400)
