"""The values that hold when no flag is given, each with its origin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.settings.options import CONFIGURABLE, OPTIONS, Option
from contract.settings.sources import from_environment, from_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A configured value. ``origin`` is a file or the name of a variable; None if nothing configures it."""

    option: Option
    value: Any
    origin: str | None


def effective(start: Path | None = None, environ: Mapping[str, str] | None = None) -> list[Setting]:
    """Every setting, in the order of ``OPTIONS``.

    Policies of all sources are kept, for they add up; of everything else the strongest source counts.

    Raises:
        UsageError: a source is wrong; nothing is ignored.
    """
    found: dict[str, Setting] = {}
    sources = [*from_files(start or Path.cwd()), *from_environment(os.environ if environ is None else environ)]
    for option, value, origin in sources:
        before = found.get(option.name)
        if option.name == "policy" and before is not None:
            value, origin = [*before.value, *value], f"{before.origin}, {origin}"
        found[option.name] = Setting(option=option, value=value, origin=origin)
    return [found.get(option.name, Setting(option=option, value=None, origin=None)) for option in OPTIONS]


def defaults_of(command: str, settings: list[Setting]) -> dict[str, Any]:
    """The configured values of a command's options, by parameter. The policy is not among them: a flag adds to it."""
    return {
        s.option.parameter: s.value for s in settings if s.origin is not None and command in s.option.commands and s.option.name != "policy"
    }


def configured_policies(settings: list[Setting]) -> list[str]:
    """The policy files that files and environment name."""
    return [name for s in settings if s.option.name == "policy" and s.value for name in s.value]


def configurable(command: str) -> bool:
    """Whether a command has options that can be configured."""
    return command in CONFIGURABLE
