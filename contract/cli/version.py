"""``contract version``."""

from __future__ import annotations

import click

from contract import __version__
from contract.answers import Answer
from contract.cli.params import Output, formats_option
from contract.cli.perform import perform
from contract.kinds import kind_names


@click.command("version")
@formats_option
def command(outputs: tuple[Output, ...]) -> int:
    """Print the version, and the versions of what it writes."""
    from contract.reporting import REPORT_SCHEMA_VERSION
    from contract.source.header import NEWEST_SCHEMA_VERSION

    versions = {
        "version": __version__,
        "contract_schema_version": NEWEST_SCHEMA_VERSION,
        "report_schema_version": REPORT_SCHEMA_VERSION,
        "kinds": kind_names(),
    }
    kinds = ", ".join(kind_names()) or "none"
    text = f"eagle3-contract {__version__}\ncontract file {NEWEST_SCHEMA_VERSION}, report {REPORT_SCHEMA_VERSION}, kinds: {kinds}"
    return perform("version", lambda: Answer(text=text, data=versions), outputs)
