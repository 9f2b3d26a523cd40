"""``contract schema``."""

from __future__ import annotations

import click

from contract.answers import Answer
from contract.cli.params import Output, formats_option, kind_option
from contract.cli.perform import perform
from contract.kinds import contract_schema, default_kind
from contract.report.escape import json_text
from contract.report.schema import report_schema


@click.command("schema")
@click.option("--report", is_flag=True, help="The schema of the JSON report instead.")
@kind_option
@formats_option
def command(report: bool, kind_name: str | None, outputs: tuple[Output, ...]) -> int:
    """Print the JSON Schema (draft-07) of the contract file, for editors."""

    def body() -> Answer:
        schema = report_schema() if report else contract_schema(default_kind(kind_name))
        return Answer(text=json_text(schema, indent=2), data=schema)

    return perform("schema", body, outputs)
