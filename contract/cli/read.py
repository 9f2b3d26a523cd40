"""``contract read DRAFTER --engine E``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from contract.cli.params import Output, allow_pickle_option, engines_option, formats_option, kind_option, serve_args_option, target_option
from contract.cli.perform import perform_request
from contract.kinds import default_kind
from contract.requests import ReadRequest


@click.command("read")
@click.argument("drafter")
@engines_option(required=True)
@target_option
@serve_args_option
@kind_option
@allow_pickle_option
@formats_option
def command(
    drafter: str,
    engines: tuple[str, ...],
    target: str | None,
    serve_args: Mapping[str, str],
    kind_name: str | None,
    allow_pickle: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Say what each engine makes of the checkpoint DRAFTER: every value, and where it comes from. No contract is needed."""
    request = ReadRequest(drafter=drafter, engines=engines, target=target, serve_args=serve_args, allow_pickle=allow_pickle)
    return perform_request(lambda: default_kind(kind_name), "read", request, outputs)
