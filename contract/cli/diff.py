"""``contract diff OLD NEW``."""

from __future__ import annotations

import click

from contract.cli.params import Output, formats_option, kind_option
from contract.cli.perform import perform_request
from contract.kinds import Kind, default_kind, kind_of_spec
from contract.requests import DiffRequest


@click.command("diff")
@click.argument("old")
@click.argument("new")
@kind_option
@formats_option
def command(old: str, new: str, kind_name: str | None, outputs: tuple[Output, ...]) -> int:
    """Say what changed between the contracts OLD and NEW (files, or git:REV:path). A breaking change exits 1."""

    def kind() -> Kind:
        files = [source for source in (new, old) if not source.startswith("git:")]
        return kind_of_spec(files[0]) if files and kind_name is None else default_kind(kind_name)

    return perform_request(kind, "diff", DiffRequest(old=old, new=new), outputs)
