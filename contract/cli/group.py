"""The command group: a command's module is imported when the command is used, and a command that no kind provides is not there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

from contract.cli.say import say_error
from contract.errors import ToolError, UserError
from contract.kinds import COMMANDS as KIND_COMMANDS
from contract.kinds import kind_names, load_kind, provides

SUMMARIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "init": "Write a contract for a drafter.",
        "show": "Say a contract in words.",
        "check": "Compare files and engine readings with the contract.",
        "read": "Say what an engine makes of a checkpoint.",
        "capture": "Record what a running engine feeds the drafter.",
        "draft": "Run the drafter alone on given states.",
        "verify": "Compare the training path with the inference path.",
        "diff": "Say what changed between two contracts.",
        "export": "Write the drafter's folder as an engine must find it.",
        "demo": "Verify the embedded pair, then replay the incident.",
        "guard": "Verify, then start the server, or refuse to.",
        "hook": "Check the contracts of changed files (for pre-commit).",
        "card": "Write the model card's section about the drafter.",
        "upgrade": "Bring a contract to the newest version of the file.",
        "explain": "Say what a rule guards against.",
        "schema": "Print the JSON Schema of the contract file or of the report.",
        "config": "Print the configuration, and where each value comes from.",
        "completion": "Print the completion script of a shell.",
        "doctor": "Say what is installed and what is missing.",
        "version": "Print the version.",
    }
)
"""Every command in the order of the help page; ``contract.cli.<name>.command`` is its body."""


class ContractGroup(click.Group):
    """Lists and imports commands lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for name in SUMMARIES if _is_offered(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUMMARIES or not _is_offered(cmd_name):
            return None
        command: click.Command = import_module(f"contract.cli.{cmd_name}").command
        if ctx.resilient_parsing:
            from contract.cli.completing import complete_files

            complete_files(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table above: the command modules stay unimported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in self.list_commands(ctx)])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]}?" if near else "`contract --help` lists the commands"
            ctx.fail(f"no command {args[0]!r}; {hint}")
        name, command, rest = super().resolve_command(ctx, args)
        _configure(ctx, name)
        return name, command, rest


def _configure(ctx: click.Context, name: str | None) -> None:
    """Let the configuration stand in for flags that are not given.

    Raises:
        ConfigurationWrong: nothing in a wrong configuration is used.
    """
    from contract.settings.options import CONFIGURABLE

    if name not in CONFIGURABLE or ctx.resilient_parsing:
        return
    from contract.settings import defaults_of, effective

    try:
        ctx.default_map = {name: defaults_of(name, effective())}
    except UserError as error:
        raise ConfigurationWrong(error) from error


class ConfigurationWrong(click.ClickException):
    """The configuration is wrong, told as every other error."""

    def __init__(self, error: UserError) -> None:
        super().__init__(error.message)
        self.error = error

    def show(self, file: object = None) -> None:
        del file
        say_error(self.error)


def _is_offered(name: str) -> bool:
    if name not in KIND_COMMANDS:
        return True
    for kind in kind_names():
        try:
            if provides(load_kind(kind), name):
                return True
        except ToolError:
            # A broken kind keeps its commands, so that running one says what is broken.
            return True
    return False
