"""``contract init DRAFTER``."""

from __future__ import annotations

import click

from contract.answers import Result
from contract.cli.params import Output, allow_pickle_option, formats_option, kind_option, parse_settings, target_option
from contract.cli.perform import perform
from contract.gate import judge
from contract.kinds import default_kind
from contract.requests import InitRequest


@click.command("init")
@click.argument("drafter")
@click.option("--trainer", default="auto", show_default=True, metavar="NAME", help="The program that trained the drafter.")
@click.option("--samples", metavar="PATH", help="Training samples.")
@target_option
@click.option("--set", "settings", metavar="FIELD=VALUE", multiple=True, help="State a field that the files do not say. Repeatable.")
@click.option("-o", "--out", default="contract.yaml", show_default=True, metavar="FILE", help="Where to write the contract.")
@allow_pickle_option
@kind_option
@formats_option
def command(
    drafter: str,
    trainer: str,
    samples: str | None,
    target: str | None,
    settings: tuple[str, ...],
    out: str,
    allow_pickle: bool,
    kind_name: str | None,
    outputs: tuple[Output, ...],
) -> int:
    """Write a contract for DRAFTER from its files, asking for what they do not say. Open questions exit 1."""

    def body() -> Result:
        request = InitRequest(
            drafter=drafter,
            trainer=trainer,
            samples=samples,
            target=target,
            settings=parse_settings(settings),
            out=out,
            allow_pickle=allow_pickle,
        )
        return judge(default_kind(kind_name), request)

    return perform("init", body, outputs, subject={"drafter": drafter})
