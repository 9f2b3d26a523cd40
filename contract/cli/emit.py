"""Write results: one format to stdout and any number to files, each whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from contract.answers import Result
from contract.cli.params import Output
from contract.cli.say import checks_of, forget_stdout, say_error
from contract.errors import InputRejected, UsageError
from contract.findings import ExitCode
from contract.report.escape import json_text, visible
from contract.report.registry import render
from contract.report.style import PLAIN, style_for
from contract.reporting import Report

DEFAULT: Final = (Output("text"),)
STEP_SUMMARY_BYTES: Final = 1024 * 1024
"""GitHub drops a step summary above 1 MiB."""


def emit(result: Result, outputs: Sequence[Output]) -> int:
    """Write a result in every format asked for (text if none), files first; the exit code.

    A place that cannot be written is told on stderr and in the reports that are still to come, and makes the exit code 2. If whoever
    read stdout has gone, the exit code is 2 without a word.

    Raises:
        UsageError: an answer has no such format.
    """
    wanted = sorted(outputs or DEFAULT, key=lambda output: output.file is None)
    for output in wanted:
        _require(result, output.format)
    code = int(result.exit_code)
    for output in wanted:
        try:
            _write(result, output)
        except BrokenPipeError:
            forget_stdout()
            code = int(ExitCode.UNUSABLE)
        except InputRejected as error:
            say_error(error)
            code = int(ExitCode.UNUSABLE)
            if isinstance(result, Report):
                result = replace(result, checks=[*result.checks, *checks_of(error)])
    return code


def _write(result: Result, output: Output) -> None:
    text = _rendered(result, output)
    if output.file is not None:
        from contract.files.atomic import atomic_write

        atomic_write(output.file, text)
    else:
        _write_stdout(text, "utf-8" if output.format != "text" else None)
    if isinstance(result, Report) and output.format == "github":
        _append_step_summary(result)


def _require(result: Result, form: str) -> None:
    if not isinstance(result, Report) and form not in ("text", "json"):
        raise UsageError(
            f"this command verifies nothing, so that it has no format {form}",
            rule="cli.format-not-available",
            fix="Use --format text or --format json.",
        )


def _rendered(result: Result, output: Output) -> str:
    if isinstance(result, Report):
        return render(result, output.format, PLAIN if output.file or sys.stdout is None else style_for(sys.stdout, os.environ))
    if output.format == "json":
        return json_text(result.data, indent=2) + "\n"
    return "".join(visible(line) + "\n" for line in result.text.rstrip("\n").split("\n"))


def _write_stdout(text: str, encoding: str | None) -> None:
    if sys.stdout is None:
        raise InputRejected("stdout is closed", rule="files.write-failed", fix="Name a file: --format json=report.json.")
    stream = getattr(sys.stdout, "buffer", None)
    try:
        if stream is None:  # io.StringIO, or another program's text stream, which has an encoding of its own
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        data = text.encode(encoding or sys.stdout.encoding or "ascii", "backslashreplace")
        sys.stdout.flush()
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputRejected(
            f"stdout: {error.strerror}", rule="files.write-failed", fix="Make room where stdout goes, or name a file."
        ) from error


def _append_step_summary(report: Report) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    text = render(report, "markdown").encode()
    try:
        # O_NONBLOCK: a FIFO that nobody reads must not hang the open.
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        with os.fdopen(fd, "ab") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            room = STEP_SUMMARY_BYTES - file.tell()
            # Cut at a line, so that no table row is torn.
            file.write(text if len(text) <= room else text[: max(0, room)].rpartition(b"\n")[0])
    except OSError as error:
        raise InputRejected(
            f"the step summary cannot be written: {error.strerror}", rule="files.write-failed", fix="Unset GITHUB_STEP_SUMMARY."
        ) from error
