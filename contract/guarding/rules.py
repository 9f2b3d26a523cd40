"""The rules of the guard. None of them can be waived."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity


def _rule(name: str, title: str, why: str, remedy: str, *, severity: Severity = Severity.ERROR, depth: Depth | None = Depth.CHECK) -> Rule:
    return Rule(id=f"guard.{name}", title=title, severity=severity, dimension="flags", why=why, remedy=remedy, depth=depth)


COMMAND: Final = _rule(
    "command",
    "The command is a server command line that can be read",
    "What a script does with its arguments is not known, so that the serving flags were not verified.",
    "Put the server's own command line after `--`, or give its flags with --serve-args.",
    severity=Severity.WARNING,
    depth=None,
)
ENGINE: Final = _rule(
    "engine",
    "The command starts the engine that is named with --engine",
    "Every engine reads a drafter in its own way; a verdict about another one says nothing.",
    "Name the engine that the command starts.",
)
DRAFTER: Final = _rule(
    "drafter",
    "The server is given the drafter that was verified",
    "A verdict about one folder says nothing about another. A server that is given no drafter serves without speculation, and is healthy.",
    "Give the server the contract's drafter: --speculative-draft-model-path, or `model` in --speculative-config.",
)
TARGET: Final = _rule(
    "target",
    "The server is given the target that was verified",
    "Which boundaries a layer id means depends on the target's family and depth.",
    "Give the same target to --target and to the server, or leave --target out.",
)
EXEC: Final = _rule(
    "exec",
    "The command can be started",
    "Nothing was started.",
    "Check the name and the permissions of the program.",
)
GUARD_RULES: Final = (COMMAND, ENGINE, DRAFTER, TARGET, EXEC)
