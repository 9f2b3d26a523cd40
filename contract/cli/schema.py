"""``contract schema``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import click

from contract.answers import Answer
from contract.cli.params import Output, formats_option, kind_option
from contract.cli.perform import perform
from contract.findings import Json
from contract.kinds import contract_schema, default_kind, policy_schema, waivers_schema
from contract.report.escape import json_text
from contract.report.schema import report_schema

_OTHERS: Final[Mapping[str, Callable[[], dict[str, Json]]]] = {
    "report": report_schema,
    "waivers": waivers_schema,
    "policy": policy_schema,
}


@click.command("schema")
@click.option("--report", "which", flag_value="report", help="The schema of the JSON report instead.")
@click.option("--waivers", "which", flag_value="waivers", help="The schema of the waivers file instead.")
@click.option("--policy", "which", flag_value="policy", help="The schema of the policy file instead.")
@kind_option
@formats_option
def command(which: str | None, kind_name: str | None, outputs: tuple[Output, ...]) -> int:
    """Print the JSON Schema (draft-07) of the contract file, for editors."""

    def body() -> Answer:
        schema = _OTHERS[which]() if which is not None else contract_schema(default_kind(kind_name))
        return Answer(text=json_text(schema, indent=2), data=schema)

    return perform("schema", body, outputs)
