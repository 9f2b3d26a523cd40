"""Collects the checks of a run; too many findings end it, and under ``--fail-fast`` the first failure."""

from __future__ import annotations

from dataclasses import dataclass, field

from contract.errors import UserError
from contract.findings import Check, Status, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from contract.reporting import FindingsCounter


class Stopped(Exception):
    """The run ends early; the message says why."""


@dataclass(slots=True)
class Findings:
    """Checks in the order they were made."""

    fail_fast: bool = False
    limits: Limits = DEFAULT_LIMITS
    checks: list[Check] = field(default_factory=list)
    _counter: FindingsCounter = field(init=False)

    def __post_init__(self) -> None:
        self._counter = FindingsCounter(self.limits)

    def add(self, *checks: Check) -> None:
        """Add checks. Raises Stopped after a failed one under ``fail_fast``, and beyond the limit ``findings``."""
        for check in checks:
            last = self._counter.beyond(check)
            self.checks.append(last or check)
            if last is not None:
                raise Stopped("at the limit findings")
            if self.fail_fast and check.status is Status.FAILED:
                raise Stopped("at the first failure (--fail-fast)")

    def error(self, error: UserError, dimension: str = "files") -> None:
        """Add the check that an unusable input leaves."""
        self.add(check_from_error(error, dimension=dimension))
