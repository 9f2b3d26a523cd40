"""``contract demo``."""

from __future__ import annotations

import click

from contract.cli.logs import configure_logs, log_options
from contract.cli.params import Output, formats_option, kind_option
from contract.cli.perform import perform_request
from contract.kinds import default_kind
from contract.requests import DemoRequest


@click.command("demo")
@click.option("--keep", metavar="DIR", help="Leave the demo's files in this folder.")
@kind_option
@log_options
@formats_option
def command(keep: str | None, kind_name: str | None, log: str, verbose: bool, outputs: tuple[Output, ...]) -> int:
    """Verify the embedded, really trained pair, then replay the incident. Exit 0 when both come out as they should."""
    configure_logs(log, verbose=verbose)
    return perform_request(lambda: default_kind(kind_name), "demo", DemoRequest(keep=keep), outputs)
