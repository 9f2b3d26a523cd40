"""The stable interface: the report as one JSON object, as specs/report.schema.json describes it."""

from __future__ import annotations

from contract import __version__
from contract.report.escape import json_text
from contract.report.style import Style
from contract.reporting import Report, report_as_json


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    return json_text(report_as_json(report, tool_version=__version__), indent=2) + "\n"
