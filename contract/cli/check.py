"""``contract check SPEC``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import click

from contract.cli.gate_options import policy_option
from contract.cli.params import Output, allow_pickle_option, engines_option, formats_option, serve_args_option, target_option
from contract.cli.perform import perform_request
from contract.kinds import kind_of_spec
from contract.requests import CheckRequest, Integrity


@click.command("check")
@click.argument("spec")
@engines_option()
@target_option
@serve_args_option
@click.option("--samples", metavar="PATH", help="Training samples, run as each --engine would run them: what a difference costs.")
@click.option(
    "--integrity",
    type=click.Choice(["headers", "values", "digests"]),
    default="headers",
    show_default=True,
    help="How much of the weights to read: headers only, sampled values, or every byte.",
)
@policy_option
@allow_pickle_option
@formats_option
def command(
    spec: str,
    engines: tuple[str, ...],
    target: str | None,
    serve_args: Mapping[str, str],
    samples: str | None,
    integrity: str,
    allow_pickle: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Compare the drafter's files, and each engine's reading of them, with the contract SPEC."""
    request = CheckRequest(
        spec=spec,
        engines=engines,
        target=target,
        serve_args=serve_args,
        samples=samples,
        integrity=cast(Integrity, integrity),
        allow_pickle=allow_pickle,
    )
    return perform_request(lambda: kind_of_spec(spec), "check", request, outputs)
