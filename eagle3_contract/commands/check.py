"""``contract check``."""

from __future__ import annotations

from contract.reporting import Report
from contract.requests import CheckRequest
from eagle3_contract.check.run import check as run


def check(request: CheckRequest) -> Report:
    """The files, and the engines' reading of them, against the contract."""
    return run(request)
