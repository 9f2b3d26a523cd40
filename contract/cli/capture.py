"""``contract capture SPEC``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from contract.cli.engine_options import run_options
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
@click.option("--spool", metavar="FOLDER", help="What the plugin recorded in a server that was started elsewhere; nothing is run.")
@click.option("-o", "--out", required=True, metavar="BUNDLE", help="The folder to write.")
@click.option("--imitate", metavar="E", help="Feed the drafter what the engine E would feed it.")
@click.option("--max-requests", metavar="N", type=click.IntRange(1), help="Keep at most N requests of --spool.")
@click.option("--max-rows", metavar="N", type=click.IntRange(1), help="Keep at most N tokens of each request of --spool.")
@serve_args_option
@run_options
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
    spool: str | None,
    out: str,
    imitate: str | None,
    max_requests: int | None,
    max_rows: int | None,
    serve_args: Mapping[str, str],
    engine_python: str | None,
    max_new_tokens: int | None,
    runs: tuple[str, ...],
    dtype: str | None,
    device: str,
    allow_pickle: bool,
    log: str,
    verbose: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Run the target of the contract SPEC in an engine, and record what the engine feeds the drafter."""
    if sum(given is not None for given in (prompts, samples, spool)) != 1:
        raise click.UsageError("give one of --prompts, --samples and --spool")
    if spool is None and (max_requests is not None or max_rows is not None):
        raise click.UsageError("--max-requests and --max-rows are for --spool")
    if spool is not None and (imitate or engine_python or max_new_tokens or runs or dtype):
        raise click.UsageError("--spool runs nothing: --imitate, --engine-python, --max-new-tokens, --runs and --dtype mean nothing to it")
    configure_logs(log, verbose=verbose)
    request = CaptureRequest(
        spec=spec,
        engine=engine,
        target=target,
        out=out,
        prompts=prompts,
        samples=samples,
        spool=spool,
        max_requests=max_requests,
        max_rows=max_rows,
        imitate=imitate,
        serve_args=serve_args,
        engine_python=engine_python,
        max_new_tokens=max_new_tokens,
        runs=runs,
        dtype=dtype,
        device=device,
        allow_pickle=allow_pickle,
    )
    return perform_request(lambda: kind_of_spec(spec), "capture", request, outputs)
