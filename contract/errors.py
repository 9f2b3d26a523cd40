"""The two roots of every exception this project raises.

``UserError`` is something the person at the keyboard can mend: it carries a stable rule id and the remedy, and the command line
prints it without a traceback and exits 2. ``InternalError`` is a fault of this program: it keeps its traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contract.findings import Where


class UserError(Exception):
    """Something the user can mend.

    Attributes:
        message: what is wrong, with the values that show it.
        rule: stable rule id (``area.kebab-name``), known to ``contract explain``.
        fix: what to do about it.
        where: the place in a file, if there is one.
    """

    def __init__(self, message: str, *, rule: str, fix: str, where: Where | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule
        self.fix = fix
        self.where = where


class UsageError(UserError):
    """The command line, or the call of the Python API, does not make sense."""


class InputRejected(UserError):
    """A file is unreadable, malformed or hostile; nothing in it was believed."""


class LimitExceeded(InputRejected):
    """A named limit was hit. Carries both numbers, so that the remedy can be judged."""

    def __init__(self, limit: str, *, allowed: int, actual: int, rule: str, where: Where | None = None, what: str = "") -> None:
        super().__init__(
            f"{what or 'input'} exceeds the limit {limit}: {actual} > {allowed}",
            rule=rule,
            fix=f"Make the input smaller; the limit {limit} protects the verifier and can be lowered but not raised by a flag.",
            where=where,
        )
        self.limit = limit
        self.allowed = allowed
        self.actual = actual


class ToolError(UserError):
    """An engine, a target run or an external program failed, or is not installed."""


class InternalError(Exception):
    """A fault of this program. Never caught except to report it as such."""
