"""``contract draft DRAFTER``."""

from __future__ import annotations

import click

from contract.cli.logs import configure_logs, log_options
from contract.cli.params import Output, allow_pickle_option, device_option, formats_option, kind_option
from contract.cli.perform import perform_request
from contract.kinds import default_kind, kind_of_spec
from contract.requests import DraftRequest


@click.command("draft")
@click.argument("drafter")
@click.option("--inputs", required=True, metavar="FILE", help="safetensors with input_ids [T] and hidden_states [T, k*H].")
@click.option("--target", metavar="DIR", help="The target, where the drafter has no embedding or head of its own.")
@click.option("--steps", type=click.IntRange(min=1), default=1, show_default=True, help="Drafting steps.")
@click.option("--wiring", default="training", show_default=True, metavar="training|E", help="Whose wiring to run.")
@click.option("--spec", metavar="SPEC", help="The contract that states what training did.")
@click.option("-o", "--out", required=True, metavar="FILE", help="safetensors to write, with logits_step0 ...")
@device_option
@kind_option
@log_options
@allow_pickle_option
@formats_option
def command(
    drafter: str,
    inputs: str,
    target: str | None,
    steps: int,
    wiring: str,
    spec: str | None,
    out: str,
    device: str,
    kind_name: str | None,
    log: str,
    verbose: bool,
    allow_pickle: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Run DRAFTER alone on given hidden states, teacher forced, in float32."""
    configure_logs(log, verbose=verbose)
    request = DraftRequest(
        drafter=drafter,
        inputs=inputs,
        out=out,
        target=target,
        steps=steps,
        wiring=wiring,
        spec=spec,
        device=device,
        allow_pickle=allow_pickle,
    )
    return perform_request(lambda: default_kind(kind_name) if spec is None else kind_of_spec(spec), "draft", request, outputs)
