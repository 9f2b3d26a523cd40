"""``contract capture SPEC``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from contract.cli.logs import configure_logs, log_options
from contract.cli.params import Output, allow_pickle_option, device_option, formats_option, serve_args_option
from contract.cli.perform import perform_request
from contract.kinds import kind_of_spec
from contract.requests import CaptureRequest


@click.command("capture")
@click.argument("spec")
@click.option("--engine", required=True, metavar="NAME==VERSION", help="The engine to run: transformers, vllm or sglang.")
@click.option("--target", required=True, metavar="DIR", help="The target model.")
@click.option("--prompts", metavar="FILE", help="Prompts, one a line.")
@click.option("--samples", metavar="PATH", help="Training samples whose tokens are run.")
@click.option("-o", "--out", required=True, metavar="BUNDLE", help="The folder to write.")
@click.option("--imitate", metavar="E", help="Feed the drafter what the engine E would feed it.")
@serve_args_option
@device_option
@allow_pickle_option
@log_options
@formats_option
def command(
    spec: str,
    engine: str,
    target: str,
    prompts: str | None,
    samples: str | None,
    out: str,
    imitate: str | None,
    serve_args: Mapping[str, str],
    device: str,
    allow_pickle: bool,
    log: str,
    verbose: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Run the target of the contract SPEC in an engine, and record what the engine feeds the drafter."""
    if (prompts is None) == (samples is None):
        raise click.UsageError("give one of --prompts and --samples")
    configure_logs(log, verbose=verbose)
    request = CaptureRequest(
        spec=spec,
        engine=engine,
        target=target,
        out=out,
        prompts=prompts,
        samples=samples,
        imitate=imitate,
        serve_args=serve_args,
        device=device,
        allow_pickle=allow_pickle,
    )
    return perform_request(lambda: kind_of_spec(spec), "capture", request, outputs)
