"""``contract show SPEC``."""

from __future__ import annotations

import click

from contract.cli.params import Output, formats_option
from contract.cli.perform import perform_request
from contract.kinds import kind_of_spec
from contract.requests import ShowRequest


@click.command("show")
@click.argument("spec")
@formats_option
def command(spec: str, outputs: tuple[Output, ...]) -> int:
    """Say the contract SPEC in words, with the data flow drawn."""
    return perform_request(lambda: kind_of_spec(spec), "show", ShowRequest(spec=spec), outputs)
