"""``contract verify SPEC``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import click

from contract.cli.engine_options import run_options
from contract.cli.gate_options import policy_option
from contract.cli.logs import configure_logs, log_options
from contract.cli.params import Output, allow_pickle_option, device_option, formats_option, serve_args_option
from contract.cli.perform import perform_request
from contract.kinds import kind_of_spec
from contract.requests import Executor, VerifyRequest


@click.command("verify")
@click.argument("spec")
@click.option("--samples", metavar="PATH", help="Training samples.")
@click.option("--capture", metavar="BUNDLE", help="What an engine fed the drafter, recorded by `contract capture`.")
@click.option("--engine", metavar="NAME[RUNNER]==VERSION", help="Capture now, from this engine.")
@click.option("--target", metavar="DIR", help="The target model.")
@click.option("--server", metavar="URL", help="A running server.")
@click.option("--prompts", metavar="FILE", help="Prompts to run instead of the samples, one a line.")
@serve_args_option
@run_options
@device_option
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where to compute.")
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="Processes that measure samples where there is no capture.  [default: as pays]"
)
@click.option("--resume", metavar="FILE", help="Journal of the samples that are measured; what is in it is not measured again.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failed check.")
@allow_pickle_option
@log_options
@policy_option
@formats_option
def command(
    spec: str,
    samples: str | None,
    capture: str | None,
    engine: str | None,
    target: str | None,
    server: str | None,
    prompts: str | None,
    serve_args: Mapping[str, str],
    engine_python: str | None,
    max_new_tokens: int | None,
    runs: tuple[str, ...],
    dtype: str | None,
    device: str,
    executor: str,
    workers: int | None,
    resume: str | None,
    fail_fast: bool,
    allow_pickle: bool,
    log: str,
    verbose: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Run the drafter on the training path and on the inference path of the contract SPEC, and say where and why they part."""
    if sum(given is not None for given in (capture, engine, server)) > 1:
        raise click.UsageError("give at most one of --capture, --engine and --server")
    if any(given is not None for given in (capture, engine, server)) and (workers is not None or resume is not None or executor != "local"):
        raise click.UsageError(
            "--workers, --resume and --executor are for the training path alone, without --capture, --engine and --server"
        )
    if engine is None and (engine_python or runs or dtype):
        raise click.UsageError("--engine-python, --runs and --dtype are for --engine")
    if engine is None and server is None and (prompts is not None or max_new_tokens is not None):
        raise click.UsageError("--prompts and --max-new-tokens are for --engine and --server")
    configure_logs(log, verbose=verbose)
    request = VerifyRequest(
        spec=spec,
        samples=samples,
        capture=capture,
        engine=engine,
        target=target,
        server=server,
        prompts=prompts,
        serve_args=serve_args,
        engine_python=engine_python,
        max_new_tokens=max_new_tokens,
        runs=runs,
        dtype=dtype,
        device=device,
        executor=cast(Executor, executor),
        workers=workers,
        resume=resume,
        fail_fast=fail_fast,
        allow_pickle=allow_pickle,
    )
    return perform_request(lambda: kind_of_spec(spec), "verify", request, outputs)
