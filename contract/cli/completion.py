"""``contract completion SHELL``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from contract.answers import Answer
from contract.cli.perform import perform
from contract.errors import InternalError

VARIABLE = "_CONTRACT_COMPLETE"
INSTALL = {
    "bash": "contract completion bash > ~/.local/share/bash-completion/completions/contract",
    "zsh": "contract completion zsh > ~/.zfunc/_contract    # with ~/.zfunc in fpath",
    "fish": "contract completion fish > ~/.config/fish/completions/contract.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(sorted(INSTALL)))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the completion script of SHELL, to be put where the shell looks for such scripts."""
    root = context.find_root().command

    def body() -> Answer:
        found = get_completion_class(shell)
        if found is None:
            raise InternalError(f"click has no completion for {shell}")
        completion = found(root, {}, "contract", VARIABLE)
        script = completion.source_template % completion.source_vars()
        return Answer(text=f"{script.strip()}\n# {INSTALL[shell]}", data={"shell": shell, "script": script})

    return perform("completion", body, ())
