"""``contract export``."""

from __future__ import annotations

from contract.reporting import Report
from contract.requests import ExportRequest
from eagle3_contract.export.run import export as run


def export(request: ExportRequest) -> Report:
    """One folder that every named engine reads as training meant it, or why there is none."""
    return run(request)
