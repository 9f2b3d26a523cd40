"""What a shell completes beyond commands and choices: names of files, wherever a file or a folder is meant."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import CompletionItem

PLACES: Final = frozenset(
    {
        "spec",
        "drafter",
        "old",
        "new",
        "files",
        "inputs",
        "target",
        "samples",
        "capture",
        "prompts",
        "spool",
        "policy",
        "out",
        "into",
        "keep",
    }
    | {"pythons", "engine_python"}
)
"""Parameters that name a file or a folder. They are texts (a Hub id is one too), of which a shell would complete nothing."""


class _Place(click.types.StringParamType):
    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leave it to the shell, which knows its files."""
        del ctx, param
        return [CompletionItem(incomplete, type="file")]


def complete_files(command: click.Command) -> None:
    """Let the parameters in ``PLACES`` of a command be completed to files."""
    for param in command.params:
        if param.name in PLACES and isinstance(param.type, click.types.StringParamType):
            param.type = _Place()
