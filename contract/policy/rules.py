"""The rules of a policy. None of them can be waived; breaking one is exit 2, for a gate that was loosened has verified nothing."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity


def _rule(name: str, title: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"policy.{name}", title=title, severity=Severity.ERROR, dimension="policy", why=why, remedy=remedy)


TOLERANCE: Final = _rule(
    "tolerance-too-loose",
    "No tolerance of the contract is looser than the policy allows",
    "A contract lies beside the weights, and whoever changes the weights can change it too. A tolerance that is wide enough passes another "
    "layer's states for the right ones.",
    "Tighten the tolerance in the contract, or leave it null for the built-in bound.",
)
UNKNOWN_TOLERANCE: Final = _rule(
    "unknown-tolerance",
    "Every tolerance that the policy names is one of the contract's",
    "A misspelt ceiling caps nothing, and looks in review as if it did.",
    "Correct the name in the policy.",
)
FORBIDDEN: Final = _rule(
    "waiver-forbidden",
    "No waiver covers a rule that the policy forbids to waive",
    "Some failures are never acceptable to the organisation, whoever accepts them in a repository.",
    "Remove the waiver and mend the failure.",
)
TOO_LONG: Final = _rule(
    "waiver-too-long",
    "No waiver runs longer than the policy allows",
    "A waiver without an end in sight is a change of the contract that nobody reviews again.",
    "Set an earlier date.",
)
INTEGRITY: Final = _rule(
    "integrity",
    "The drafter is read at least as deeply as the policy demands",
    "Headers alone do not show that the weights are the ones that were trained.",
    "Nothing to do: the depth is raised by the policy.",
)
POLICY_RULES: Final = (TOLERANCE, UNKNOWN_TOLERANCE, FORBIDDEN, TOO_LONG, INTEGRITY)
