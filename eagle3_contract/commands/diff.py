"""``contract diff``."""

from __future__ import annotations

from contract.reporting import Report
from contract.requests import DiffRequest
from eagle3_contract.diff.run import diff as run


def diff(request: DiffRequest) -> Report:
    """What changed between two contracts, and what of it breaks a promise.

    Raises:
        UserError: one of the two cannot be read.
    """
    return run(request)
