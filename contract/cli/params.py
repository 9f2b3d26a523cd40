"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from contract.errors import UsageError
from contract.report.registry import FORMATS

F = TypeVar("F", bound=Callable[..., Any])
_SERVE_ARGS: Final = re.compile(r"(?P<engine>[A-Za-z0-9_.-]+(?:\[[^\]=]*\])?(?:==[^=]+)?)=(?!=)(?P<arguments>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Output:
    """One ``--format``: the name of a format, and the file that it goes to (None: stdout)."""

    format: str
    file: str | None = None


def _outputs(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[Output, ...]:
    return parse_outputs(values)


def parse_outputs(values: Iterable[str]) -> tuple[Output, ...]:
    """``NAME`` or ``NAME=FILE`` each.

    Raises:
        click.BadParameter: a name is no format, or two reports would go to one place.
    """
    found: dict[str | None, Output] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if name not in FORMATS:
            raise click.BadParameter(f"{name!r} is no format; there are {', '.join(FORMATS)}")
        if equals and not file:
            raise click.BadParameter(f"{value!r} names no file")
        output = Output(name, file or None)
        if output.file in found:
            raise click.BadParameter(f"two reports would go to {output.file or 'stdout'}; write NAME=FILE")
        found[output.file] = output
    return tuple(found.values())


def _serve_args(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    return parse_serve_args(values)


def formats_option(function: F) -> F:
    """``--format``, as ``outputs``; empty if it was not given."""
    return click.option(
        "--format",
        "outputs",
        metavar="NAME[=FILE]",
        multiple=True,
        callback=_outputs,
        help=f"Repeatable: {', '.join(FORMATS)}. Without FILE: to stdout. Default: text.",
    )(function)


def engines_option(*, required: bool = False) -> Callable[[F], F]:
    """``--engine``, repeatable, as ``engines``."""
    return click.option(
        "--engine",
        "engines",
        metavar="NAME[RUNNER]==VERSION",
        multiple=True,
        required=required,
        help="Engine, such as sglang==0.5.23 or vllm[v2]==0.32.0; runner and version are optional. Repeatable.",
    )


def target_option(function: F) -> F:
    """``--target``."""
    return click.option("--target", metavar="DIR|config.json|hf:ORG/NAME@COMMIT", help="The target model.")(function)


def serve_args_option(function: F) -> F:
    """``--serve-args``, repeatable, as the mapping ``serve_args``."""
    return click.option(
        "--serve-args",
        metavar='E="..."',
        multiple=True,
        callback=_serve_args,
        help="Command line with which the engine E is served. Repeatable.",
    )(function)


def allow_pickle_option(function: F) -> F:
    """``--allow-pickle``."""
    return click.option("--allow-pickle", is_flag=True, help="Read pickle-based files too, in a child process with limits.")(function)


def device_option(function: F) -> F:
    """``--device``."""
    return click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda, cuda:1 ...")(function)


def kind_option(function: F) -> F:
    """``--kind``, for commands without a contract."""
    return click.option("--kind", "kind_name", metavar="NAME", help="Drafter family, if several are installed.")(function)


def parse_serve_args(values: Iterable[str]) -> dict[str, str]:
    """``E=...`` each, where E may itself contain ``==``.

    Raises:
        click.BadParameter: no engine is named, or one is named twice.
    """
    found: dict[str, str] = {}
    for value in values:
        match = _SERVE_ARGS.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r} does not name an engine: write --serve-args sglang='--speculative-num-steps 5 ...'")
        if match["engine"] in found:
            raise click.BadParameter(f"{match['engine']} is given twice")
        found[match["engine"]] = match["arguments"]
    return found


def parse_settings(values: Iterable[str]) -> dict[str, str]:
    """``FIELD=VALUE`` each.

    Raises:
        UsageError: no ``=``, or a field twice.
    """
    found: dict[str, str] = {}
    for value in values:
        field, equals, setting = value.partition("=")
        if not equals or not field or field in found:
            raise UsageError(
                f"--set {value!r} is not FIELD=VALUE, or sets the field again",
                rule="cli.bad-setting",
                fix="Write each field once, such as --set wiring.feedback=pre_norm.",
            )
        found[field] = setting
    return found
