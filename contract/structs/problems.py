"""What can be wrong with the content of a contract, and the exception that holds all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contract.errors import InputRejected
from contract.findings import Check, Json, Rule, Severity, Status, Where


def _rule(name: str, title: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"contract.{name}", title=title, severity=Severity.ERROR, dimension="contract", why=why, remedy=remedy)


UNKNOWN_KEY: Final = _rule(
    "unknown-key",
    "Every key of the contract is one that this tool knows",
    "A misspelt key would state nothing, and the field it was meant for would go unchecked.",
    "Correct the spelling, or remove the key.",
)
MISSING_KEY: Final = _rule(
    "missing-key",
    "Every required key of the contract is there",
    "Nothing is defaulted silently: what training did must be stated, or stated to be unknown.",
    "State the value, or write {unknown: <reason>} where it is not known.",
)
WRONG_TYPE: Final = _rule(
    "wrong-type",
    "Every value of the contract has the type of its field",
    "A value of another type (a number for a string, `yes` for true) was meant otherwise than it would be read.",
    "Write a value of the expected type.",
)
BAD_VALUE: Final = _rule(
    "bad-value",
    "Every value of the contract is one that its field can have",
    "A value out of range or outside the list of its field cannot be what training did.",
    "Write one of the allowed values.",
)
STRUCT_RULES: Final[tuple[Rule, ...]] = (UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE, BAD_VALUE)


def problem(rule: Rule, message: str, *, where: Where, expected: Json, actual: Json, fix: str | None = None) -> Check:
    """One problem as the check that it leaves in a report: undecided, and the reason for exit 2."""
    return Check(
        rule=rule.id,
        status=Status.UNKNOWN,
        required=True,
        severity=rule.severity,
        dimension=rule.dimension,
        message=message,
        where=where,
        expected=expected,
        actual=actual,
        fix=fix or rule.remedy,
        evidence={"rejected": True},
        rejected=True,
    )


class SpecInvalid(InputRejected):
    """A contract parses, but does not say what a contract says. ``problems`` has all of it, in the order of the file."""

    def __init__(self, problems: Sequence[Check]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(first.message + more, rule=first.rule, fix=first.fix or "", where=first.where)
        self.problems: tuple[Check, ...] = tuple(problems)
