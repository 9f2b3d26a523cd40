"""What goes to stderr about faults: one line each, in which no character acts."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from contract.errors import UserError
from contract.findings import Check, check_from_error
from contract.report.escape import visible

SHOWN_PROBLEMS: Final = 50
SHOWN_MESSAGE: Final = 2000
"""Characters of a message; a line has 4,000 (contract.report.escape)."""
_DIMENSIONS: Final = {"contract": "contract", "files": "files"}
"""Of a rejected input, by the area of its rule."""


def checks_of(error: UserError) -> list[Check]:
    """The checks that an error leaves: all problems of a contract, or the one that it is."""
    problems: list[Check] = list(getattr(error, "problems", ()))
    return problems or [check_from_error(error, dimension=_DIMENSIONS.get(error.rule.partition(".")[0], "tool"))]


def say_error(error: UserError) -> None:
    """``error: contract.yaml:3:1: ... [rule], fix: ...``, a line for each problem."""
    checks = checks_of(error)
    for check in checks[:SHOWN_PROBLEMS]:
        place = f"{check.where}: " if check.where is not None and str(check.where) else ""
        if place and check.message.startswith((place, place.removesuffix(": ") + " ")):
            place = ""  # the message begins with it
        what = f"{place}{check.message}"
        if len(what) > SHOWN_MESSAGE:  # the remedy after it must be seen
            what = f"{what[:SHOWN_MESSAGE]}... ({len(what)} characters)"
        say(f"error: {what} [{check.rule}], fix: {check.fix}")
    if len(checks) > SHOWN_PROBLEMS:
        say(f"error: {len(checks) - SHOWN_PROBLEMS} more problems, fix: see --format json")


def say(line: str) -> None:
    """One line on stderr."""
    if sys.stderr is not None:
        sys.stderr.write(visible(line) + "\n")


def say_fault(error: Exception) -> Check:
    """The traceback of a fault of this program, a line that asks for a report of it, and the check that it leaves."""
    for line in "".join(traceback.format_exception(error)).rstrip("\n").split("\n"):
        say(line)
    fault = UserError(
        f"internal error: {type(error).__name__}: {error}",
        rule="tool.internal-error",
        fix="This is a bug in eagle3-contract, not in your drafter: please report it with the traceback and the command line.",
    )
    say_error(fault)
    return checks_of(fault)[0]


def forget_stdout() -> None:
    """The reader has gone: nothing more may be written, not even by the interpreter's flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
