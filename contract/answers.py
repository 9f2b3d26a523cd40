"""What a command returns: a report, or an answer that is no verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from contract.findings import ExitCode, Json
from contract.reporting import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command that verifies nothing (``read``, ``show``, ``schema`` ...).

    ``text`` is for people, in lines; whoever prints it makes it visible. ``data`` is what ``--format json`` writes.
    """

    text: str
    data: Json
    exit_code: ExitCode = ExitCode.KEPT


Result: TypeAlias = Report | Answer
