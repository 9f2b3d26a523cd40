"""What a policy says about a request, a contract and its waivers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from difflib import get_close_matches
from typing import TypeVar

from contract.findings import Check, Rule, Status, Where
from contract.policy.load import DEPTHS, Policy
from contract.policy.rules import FORBIDDEN, INTEGRITY, TOLERANCE, TOO_LONG, UNKNOWN_TOLERANCE
from contract.requests import CheckRequest, VerifyRequest
from contract.source import Document
from contract.source.nodes import MappingNode, ScalarNode
from contract.waivers.load import Waivers
from contract.waivers.model import Waiver

R = TypeVar("R", bound=CheckRequest | VerifyRequest)


def tightened(request: R, policy: Policy) -> R:
    """The request with the policy's depth of reading, limits and ceilings, where they are stricter than its own."""
    deepest = max(request.integrity, policy.integrity, key=DEPTHS.index)
    return replace(request, integrity=deepest, limits=policy.limits, ceilings=policy.tolerances)


def integrity_check(asked: CheckRequest | VerifyRequest, policy: Policy) -> Iterator[Check]:
    """That the policy raised the depth of reading, if it did."""
    if DEPTHS.index(policy.integrity) > DEPTHS.index(asked.integrity):
        yield INTEGRITY.passed(f"the policy raises --integrity from {asked.integrity} to {policy.integrity}")


def tolerance_checks(document: Document, policy: Policy) -> Iterator[Check]:
    """Every ceiling of the policy against the contract's `tolerances` section.

    A ceiling for a name that the section does not have is a fault of the policy: the section is complete (a contract leaves nothing out).
    """
    section = document.node_at(("tolerances",))
    if not isinstance(section, MappingNode):
        return  # no contract, or one that the kind will refuse
    for name, ceiling in policy.tolerances.items():
        node, where = section.entries.get(name), document.where(("tolerances", name))
        if node is None:
            near = get_close_matches(name, section.entries, n=1)
            yield _rejected(
                UNKNOWN_TOLERANCE,
                f"the policy caps tolerances.{name}, which the contract does not have",
                Where(file=str(policy.sources[0]["file"])) if policy.sources else None,
                fix=f"Did you mean {near[0]}?" if near else None,
            )
            continue
        value = node.value if isinstance(node, ScalarNode) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and not value <= ceiling:
            said = f"tolerances.{name} is {value}, the policy allows {ceiling} at most"
            yield replace(_rejected(TOLERANCE, said, where), expected=f"<= {ceiling}", actual=value)
        else:
            yield TOLERANCE.passed(f"tolerances.{name} is no looser than {ceiling}", where=where)


def split_waivers(waivers: Waivers, policy: Policy, *, today: date) -> tuple[Waivers, list[Check]]:
    """The waivers that the policy allows, and a rejected check for each other one."""
    kept: list[tuple[Waiver, Where]] = []
    refused: list[Check] = []
    for waiver, where in zip(waivers.waivers, waivers.places, strict=True):
        found = list(_refusals(waiver, where, policy, today))
        refused += found
        if not found:
            kept.append((waiver, where))
    return replace(waivers, waivers=[w for w, _ in kept], places=[p for _, p in kept]), refused


def _refusals(waiver: Waiver, where: Where, policy: Policy, today: date) -> Iterator[Check]:
    forbidden = next((pattern for pattern in policy.forbidden if overlap(pattern, waiver.rule)), None)
    if forbidden is not None:
        yield _rejected(FORBIDDEN, f"the policy forbids to waive {forbidden}; this waiver covers {waiver.rule}", where)
    if policy.max_days is not None and waiver.last_day > today + timedelta(days=policy.max_days):
        latest = today + timedelta(days=policy.max_days)
        said = f"the waiver of {waiver.rule} runs until {waiver.expires}; the policy allows {policy.max_days} days, until {latest}"
        yield replace(_rejected(TOO_LONG, said, where), expected=f"{latest} or earlier", actual=waiver.expires)


def overlap(one: str, other: str) -> bool:
    """Whether two patterns (a rule id, or ``area.*``) cover a rule in common."""
    if one.endswith(".*") or other.endswith(".*"):
        return one.partition(".")[0] == other.partition(".")[0]
    return one == other


def _rejected(rule: Rule, message: str, where: Where | None, *, fix: str | None = None) -> Check:
    found = rule.undecided(message, where=where, fix=fix or rule.remedy, evidence={"rejected": True})
    return replace(found, status=Status.UNKNOWN, required=True, rejected=True)
