"""``contract init``."""

from __future__ import annotations

from contract.reporting import Report
from contract.requests import InitRequest
from eagle3_contract.init.run import init as run


def init(request: InitRequest) -> Report:
    """Write a contract from what training left, and say what is still open.

    Raises:
        UserError: the drafter, the target, the samples or an answer cannot be used.
    """
    return run(request)
