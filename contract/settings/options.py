"""What can be configured: the options of commands that stay the same from run to run. Opt-ins to danger cannot
(``--allow-pickle``, ``--on-unknown warn``): a file in a repository must not loosen what its reader runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting.

    Attributes:
        name: in a file; the environment variable is ``CONTRACT_`` and the name in capitals.
        parameter: what the commands call it.
        commands: those that have it.
        several: the value is a list; in the environment its parts are separated by blanks (paths by the system's separator).
        path: the value names files; relative ones in a file start where that file lies.
        choices: the allowed values; empty for any text.
        writes: a value may be NAME=FILE, a file that is written. Not in a file: who may write into a folder does not choose which of its
            visitors' files are replaced.
    """

    name: str
    parameter: str
    commands: tuple[str, ...]
    help: str
    several: bool = False
    path: bool = False
    choices: tuple[str, ...] = ()
    writes: bool = False

    @property
    def variable(self) -> str:
        return f"CONTRACT_{self.name.upper()}"


OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="policy",
        parameter="policy",
        commands=("check", "verify", "guard", "hook"),
        several=True,
        path=True,
        help="policy files; they add up",
    ),
    Option(
        name="engines",
        parameter="engines",
        commands=("check", "read", "export", "hook"),
        several=True,
        help="engines, such as sglang==0.5.23",
    ),
    Option(
        name="target",
        parameter="target",
        commands=("check", "read", "verify", "capture", "export", "guard", "card", "hook"),
        path=True,
        help="the target",
    ),
    Option(name="samples", parameter="samples", commands=("verify", "guard"), path=True, help="training samples"),
    Option(
        name="integrity",
        parameter="integrity",
        commands=("check", "guard", "hook"),
        choices=("headers", "values", "digests"),
        help="how much of the weights is read",
    ),
    Option(name="device", parameter="device", commands=("capture", "draft", "verify"), help="auto, cpu, cuda ..."),
    Option(
        name="format",
        parameter="outputs",
        commands=("check", "verify", "guard"),
        several=True,
        writes=True,
        help="report formats, NAME or NAME=FILE",
    ),
    Option(name="log", parameter="log", commands=("capture", "verify"), choices=("console", "json"), help="format of logs"),
)
BY_NAME: Final = {option.name: option for option in OPTIONS}
CONFIGURABLE: Final = frozenset(command for option in OPTIONS for command in option.commands)
"""Commands that look for configuration at all."""
