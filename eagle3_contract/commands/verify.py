"""``contract verify``."""

from __future__ import annotations

from contract.reporting import Report
from contract.requests import VerifyRequest


def verify(request: VerifyRequest) -> Report:
    """Training path against inference path, on files or on a capture taken now; or a running server, which needs no torch."""
    if request.server is not None:
        from eagle3_contract.verify.server.run import verify_server

        return verify_server(request, limits=request.limits)
    from eagle3_contract.verify.run import verify as run

    return run(request, limits=request.limits)
