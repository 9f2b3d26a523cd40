"""From a command's body to its exit code: whatever happens in the body, there is a result, an output and one of four codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Final

from contract.answers import Result
from contract.cli.emit import emit
from contract.cli.params import Output
from contract.errors import InternalError, ToolError, UserError
from contract.findings import Check, Json, check_from_error
from contract.kinds import Kind, execute
from contract.report.escape import visible
from contract.reporting import Report
from contract.requests import Request

_SUBJECT: Final = ("spec", "drafter", "old", "new", "engines", "engine", "imitate", "wiring", "target", "samples", "capture", "server")
SHOWN_PROBLEMS: Final = 50


def perform(command: str, body: Callable[[], Result], outputs: Sequence[Output], *, subject: Mapping[str, Json] | None = None) -> int:
    """Run a body and write what comes of it; the exit code.

    A ``UserError`` is a line on stderr, and a report with the rejected check where a format was asked for. An interrupted body leaves a
    report that is marked incomplete. A fault of this program is a traceback and exit code 2, never 1: it is no verdict.
    """
    asked = bool(outputs)

    def unusable(*checks: Check, complete: bool = True) -> int:
        report = Report(command=command, subject=subject or {}, checks=checks, complete=complete)
        return emit(report, outputs) if asked else int(report.exit_code)

    try:
        return emit(body(), outputs)
    except UserError as error:
        for line in error_lines(error):
            print_error(line)
        return unusable(*checks_of(error))
    except KeyboardInterrupt:
        stopped = ToolError("interrupted: half a proof is no proof", rule="tool.interrupted", fix="Run it again to its end.")
        print_error(error_lines(stopped)[0])
        return unusable(check_from_error(stopped, dimension="tool"), complete=False)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 -- the outermost boundary: an uncaught fault would exit 1, which means "violated"
        return unusable(_internal(error))


def perform_request(kind: Callable[[], Kind], command: str, request: Request, outputs: Sequence[Output]) -> int:
    """Let a kind execute a request. The kind is found inside, so that a contract that cannot be read is told like every other fault."""
    return perform(command, lambda: execute(kind(), request), outputs, subject=subject_of(request))


def subject_of(request: Request) -> dict[str, Json]:
    """What a request looks at, as a report names it."""
    stated = {f.name: getattr(request, f.name) for f in fields(request)}
    return {name: list(v) if isinstance(v, tuple) else v for name in _SUBJECT if (v := stated.get(name))}


def checks_of(error: UserError) -> list[Check]:
    """The checks that an error leaves: all problems of a contract, or the one that it is."""
    return list(getattr(error, "problems", ())) or [check_from_error(error)]


def error_lines(error: UserError) -> list[str]:
    """``error: contract.yaml:3:1: ... [rule], fix: ...``, a line for each problem."""
    checks = checks_of(error)
    lines = [_line(check) for check in checks[:SHOWN_PROBLEMS]]
    return lines + ([f"error: {len(checks) - SHOWN_PROBLEMS} more problems"] if len(checks) > SHOWN_PROBLEMS else [])


def print_error(line: str) -> None:
    """One line on stderr, in which no character acts."""
    sys.stderr.write(visible(line) + "\n")


def _line(check: Check) -> str:
    place = f"{check.where}: " if check.where is not None and str(check.where) else ""
    return f"error: {place}{check.message} [{check.rule}], fix: {check.fix}"


def _internal(error: Exception) -> Check:
    for line in "".join(traceback.format_exception(error)).rstrip("\n").split("\n"):
        print_error(line)
    kind = "InternalError" if isinstance(error, InternalError) else type(error).__name__
    fault = UserError(
        f"internal error: {kind}: {error}",
        rule="tool.internal-error",
        fix="This is a bug in eagle3-contract, not in your drafter: please report it with the traceback and the command line.",
    )
    print_error(_line(check_from_error(fault, dimension="tool")))
    return check_from_error(fault, dimension="tool")
