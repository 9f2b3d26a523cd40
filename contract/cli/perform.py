"""From a command's body to its exit code: whatever happens in the body, there is a result, an output and one of four codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Final

from contract.answers import Result
from contract.cli.emit import emit
from contract.cli.gate_options import policies
from contract.cli.params import Output
from contract.cli.say import checks_of, say_error, say_fault
from contract.errors import ToolError, UsageError, UserError
from contract.findings import Check, Json
from contract.gate import judge
from contract.kinds import Kind
from contract.progress import shown_on
from contract.reporting import Report
from contract.requests import Request

_SUBJECT: Final = ("spec", "drafter", "old", "new", "engines", "engine", "imitate", "wiring", "target", "samples", "capture", "server")

_PLAIN_URL: Final = re.compile(r"https?://[^@?#\s]+")

LONG: Final = frozenset({"init", "verify", "capture", "demo", "guard"})
"""Commands that may work long enough for a bar on stderr."""


def perform(command: str, body: Callable[[], Result], outputs: Sequence[Output], *, subject: Mapping[str, Json] | None = None) -> int:
    """Run a body and write what comes of it; the exit code.

    A ``UserError`` is a line on stderr, and a report with the rejected check where a format was asked for. An interrupted body leaves a
    report that is marked incomplete. A fault of this program is a traceback and exit code 2, never 1: it is no verdict.
    """
    safe = [output for output in outputs if not _is_input(output, subject or {})]
    asked = bool(safe)

    def unusable(*checks: Check, complete: bool = True) -> int:
        report = Report(command=command, subject=subject or {}, checks=checks, complete=complete)
        return emit(report, safe) if asked else int(report.exit_code)

    try:
        for output in outputs:
            if output not in safe:
                raise UsageError(
                    f"the report would take the place of {output.file}, which is to be looked at",
                    rule="cli.not-together",
                    fix="Name another file for the report.",
                )
        with shown_on(sys.stderr, os.environ) if command in LONG else nullcontext():
            result = body()
        return emit(result, outputs)
    except UserError as error:
        say_error(error)
        return unusable(*checks_of(error))
    except KeyboardInterrupt:
        stopped = ToolError("interrupted: half a proof is no proof", rule="tool.interrupted", fix="Run it again to its end.")
        say_error(stopped)
        return unusable(*checks_of(stopped), complete=False)
    except Exception as error:  # noqa: BLE001 -- the outermost boundary: an uncaught fault would exit 1, which means "violated"
        return unusable(say_fault(error))


MODEL_SUFFIXES: Final = (".safetensors", ".index.json", ".bin", ".pt", ".ckpt", ".gz", ".arrow", ".yaml", ".yml")
MODEL_FILES: Final = frozenset({"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "manifest.json"})
"""Files that no report has the name of and that a folder of a model, of samples or of a capture holds."""


def _is_input(output: Output, subject: Mapping[str, Json]) -> bool:
    """Whether a report would be written over a file that the command names as its subject, or over a model's file in its folder."""
    if output.file is None:
        return False
    named = [value for value in subject.values() if isinstance(value, str)]
    try:
        if not os.path.exists(output.file):
            return False
        if any(os.path.exists(value) and os.path.samefile(value, output.file) for value in named):
            return True
        name, place = os.path.basename(output.file), os.path.realpath(output.file)
        if not name.endswith(MODEL_SUFFIXES) and name not in MODEL_FILES:
            return False
        folders = (os.path.realpath(v if os.path.isdir(v) else os.path.dirname(v) or ".") for v in named if os.path.exists(v))
        return any(os.path.commonpath((folder, place)) == folder for folder in folders)
    except (OSError, ValueError):
        return False


def perform_request(kind: Callable[[], Kind], command: str, request: Request, outputs: Sequence[Output]) -> int:
    """Let a kind execute a request, and judge its report under policy and waivers (contract.gate).

    The kind is found inside, so that a contract that cannot be read is told like every other fault.
    """
    return perform(command, lambda: judge(kind(), request, policies=policies), outputs, subject=subject_of(request))


def subject_of(request: Request) -> dict[str, Json]:
    """What a request looks at, as a report names it."""
    stated = {f.name: getattr(request, f.name) for f in fields(request)}
    if isinstance(stated.get("server"), str) and _PLAIN_URL.fullmatch(stated["server"]) is None:
        stated["server"] = "(not usable)"  # it may hold a password, and a report is no place for one
    return {name: list(v) if isinstance(v, tuple) else v for name in _SUBJECT if (v := stated.get(name))}
