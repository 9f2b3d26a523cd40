"""``contract verify``."""

from __future__ import annotations

from contract.errors import ToolError
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.verify.run import verify as run


def verify(request: VerifyRequest) -> Report:
    """Training path against inference path, on files or on a capture taken now.

    Raises:
        ToolError: ``verify.not-offered`` for what this version does not do.
    """
    if request.server is not None:
        raise _not_offered("verifying a running server", "Capture from the engine and verify the bundle (--capture).")
    return run(request, limits=request.limits)


def _not_offered(what: str, fix: str) -> ToolError:
    return ToolError(f"this version does not offer {what}", rule="verify.not-offered", fix=fix)
