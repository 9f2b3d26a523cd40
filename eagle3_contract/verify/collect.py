"""Collects the checks of a run; under ``--fail-fast`` the first failure ends it."""

from __future__ import annotations

from dataclasses import dataclass, field

from contract.errors import UserError
from contract.findings import Check, Status, check_from_error


class Stopped(Exception):
    """The first failure under ``--fail-fast``."""


@dataclass(slots=True)
class Findings:
    """Checks in the order they were made."""

    fail_fast: bool = False
    checks: list[Check] = field(default_factory=list)

    def add(self, *checks: Check) -> None:
        """Add checks. Raises Stopped after a failed one under ``fail_fast``."""
        for check in checks:
            self.checks.append(check)
            if self.fail_fast and check.status is Status.FAILED:
                raise Stopped

    def error(self, error: UserError, dimension: str = "files") -> None:
        """Add the check that an unusable input leaves."""
        self.add(check_from_error(error, dimension=dimension))
