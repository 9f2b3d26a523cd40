"""The contract core: contracts, findings, files, captures, reports and the command line. Knows no drafter family.

``from contract import check, verify, capture, read`` is the Python API (contract.api). It is imported when it is asked for, so that
``import contract`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contract.api import Capture, EngineReading, NotKept, capture, check, read, require_kept, verify
    from contract.errors import UserError
    from contract.findings import Check, ExitCode, Status, Verdict
    from contract.reporting import Report

__version__ = "0.1.0"
__all__ = [
    "Capture",
    "Check",
    "EngineReading",
    "ExitCode",
    "NotKept",
    "Report",
    "Status",
    "UserError",
    "Verdict",
    "capture",
    "check",
    "read",
    "require_kept",
    "verify",
]

_HOMES = {
    "UserError": "errors",
    "Check": "findings",
    "ExitCode": "findings",
    "Status": "findings",
    "Verdict": "findings",
    "Report": "reporting",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"contract.{_HOMES.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
