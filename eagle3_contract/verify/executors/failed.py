"""The error of a worker that could not begin, as the parent raises it."""

from __future__ import annotations

from contract.errors import ToolError
from contract.findings import Check


class PlanRefused(ToolError):
    """A worker could not open the plan's files. The check that it sent has the reason: exceptions with keywords do not travel."""

    def __init__(self, check: Check) -> None:
        super().__init__(
            f"a worker could not begin: {check.message}",
            rule=check.rule,
            fix=check.fix or "Let every worker see the same files.",
            where=check.where,
        )
