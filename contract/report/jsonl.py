"""One JSON object per line, for log pipelines: ``{"type": "run"}`` first, ``{"type": "check"}`` each, ``{"type": "summary"}`` last."""

from __future__ import annotations

from contract import __version__
from contract.report.escape import json_text
from contract.report.style import Style
from contract.reporting import Report, report_as_json


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    whole = report_as_json(report, tool_version=__version__)
    checks = whole.pop("checks")
    run = {key: whole.pop(key) for key in ("schema_version", "tool", "command", "subject", "provenance")}
    records = [{"type": "run", **run}, *({"type": "check", **c} for c in checks), {"type": "summary", "checks": len(checks), **whole}]
    return "".join(json_text(record) + "\n" for record in records)
