"""Rules of what stops a reading before it starts, for ``contract explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.findings import Rule, Severity


def _rule(id_: str, title: str, dimension: str, why: str, remedy: str) -> Rule:
    return Rule(id=id_, title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=remedy)


RULES: Final[Mapping[str, Rule]] = {
    rule.id: rule
    for rule in (
        _rule(
            "engines.unknown",
            "The engine, its runner and its version are in the table",
            "engine",
            "Engines read the same file differently from release to release (DeepSeek targets on SGLang: 0.5.12 adds one to every "
            "id, 0.5.13 does not). A release that nobody has read is not guessed from its neighbours.",
            "Use an engine, runner and version that the message lists.",
        ),
        _rule(
            "flags.unreadable",
            "Serving arguments can be read as a command line",
            "flags",
            "Flags decide what is fed (the algorithm) and how many tokens are drafted; a half-read command line would be read wrongly.",
            "Give the arguments as you would type them in a shell, or name a shell script or YAML file that holds them.",
        ),
        _rule(
            "flags.no-engine",
            "Serving arguments belong to an engine that is read",
            "flags",
            "Arguments for an engine that no --engine names would be ignored in silence.",
            "Add the engine, or write its arguments under the name of one that is read.",
        ),
        _rule(
            "flags.no-command",
            "A file of serving arguments holds one command for the engine",
            "flags",
            "With no command, or with two, it cannot be said which flags are meant.",
            'Give the arguments themselves: --serve-args ENGINE="--flag value ...".',
        ),
    )
}
"""Every rule of this package by id."""
