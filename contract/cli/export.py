"""``contract export SPEC --engine E -o DIR``."""

from __future__ import annotations

import click

from contract.cli.params import Output, engines_option, formats_option, target_option
from contract.cli.perform import perform_request
from contract.kinds import kind_of_spec
from contract.requests import ExportRequest


@click.command("export")
@click.argument("spec")
@engines_option(required=True)
@target_option
@click.option("-o", "--out", required=True, metavar="DIR", help="The folder to write.")
@click.option("--permute-fc", is_flag=True, help="Move fc's columns where engines feed the states in another order; proved by a run.")
@formats_option
def command(spec: str, engines: tuple[str, ...], target: str | None, out: str, permute_fc: bool, outputs: tuple[Output, ...]) -> int:
    """Write the drafter of the contract SPEC as each engine must find it to do what training did."""
    request = ExportRequest(spec=spec, engines=engines, target=target, out=out, permute_fc=permute_fc)
    return perform_request(lambda: kind_of_spec(spec), "export", request, outputs)
