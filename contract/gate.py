"""The one place where a kind's findings become a verdict: under the organisation's policy, and with the contract's waivers.

The command line, ``contract guard`` and the Python API all come through here, so that none of them can pass what another refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contract.answers import Result
from contract.errors import UserError
from contract.findings import Check, Status, check_from_error
from contract.inputs import local_inputs
from contract.kinds import Kind, execute
from contract.reporting import Report
from contract.requests import CheckRequest, Request, VerifyRequest

if TYPE_CHECKING:
    from contract.policy.load import Policy

_GATE: Final = ("policy", "waivers")
_DECIDED: Final = (Status.PASSED, Status.FAILED, Status.WAIVED)


def judge(kind: Kind, request: Request, *, policies: Callable[[], Iterable[str]] = tuple, today: date | None = None) -> Result:
    """Execute a request; the report of a ``check`` or a ``verify`` is judged by policy and waivers.

    Args:
        policies: gives the policy files (``contract.policy.policy_files``); called only where a report is judged.
        today: the day (UTC) on which waivers are judged; today by default.

    Raises:
        UserError: of the kind's body; or a policy cannot be used, in which case nothing was verified.
    """
    if not isinstance(request, CheckRequest | VerifyRequest):
        with local_inputs(request) as (local, inputs):
            return inputs.told(execute(kind, local))
    from contract.policy.apply import tightened
    from contract.policy.load import load_policy

    policy = load_policy(policies())
    with local_inputs(tightened(request, policy), limits=policy.limits) as (local, inputs):
        return inputs.told(_judged(kind, request, local, policy, today or datetime.now(UTC).date()))


def _judged(kind: Kind, asked: CheckRequest | VerifyRequest, request: CheckRequest | VerifyRequest, policy: Policy, today: date) -> Result:
    from contract.policy.apply import integrity_check, split_waivers, tolerance_checks
    from contract.source import read_yaml
    from contract.waivers import apply_waivers, load_waivers, waivers_path

    added: list[Check] = list(integrity_check(asked, policy))
    added += tolerance_checks(read_yaml(request.spec, limits=policy.limits), policy)
    path, waivers = waivers_path(request.spec), None
    if _there(path):
        from contract.rules import all_rules

        try:
            loaded = load_waivers(path, rules={rule.id: rule for rule in all_rules()}, limits=policy.limits)
            waivers, refused = split_waivers(loaded, policy, today=today)
            added += refused
        except UserError as error:
            added += _checks_of(error)
        if isinstance(request, VerifyRequest):
            # The first failure may be a waived one: the run must not stop there and leave the rest unlooked at.
            request = replace(request, fail_fast=False)
    result = execute(kind, request)
    if not isinstance(result, Report):
        return result
    if waivers is not None:
        result = apply_waivers(result, waivers, today=today)
    provenance = {**result.provenance, **({"policy": list(policy.sources)} if policy.sources else {})}
    return replace(result, checks=_not_alone([*result.checks, *added]), provenance=provenance)


def _not_alone(checks: list[Check]) -> list[Check]:
    """Without the passes of policy and waivers if nothing else was decided: a gate in order is no proof of the drafter behind it."""
    own = [check.rule.partition(".")[0] in _GATE for check in checks]
    decided = any(c.status in _DECIDED for c, gate in zip(checks, own, strict=True) if not gate)
    return checks if decided else [c for c, gate in zip(checks, own, strict=True) if not (gate and c.status is Status.PASSED)]


def _there(path: Path) -> bool:
    # A link that leads nowhere is there too, and will be refused.
    return os.path.lexists(path)


def _checks_of(error: UserError) -> list[Check]:
    problems: list[Check] = list(getattr(error, "problems", ()))
    return problems or [check_from_error(error, dimension="waivers")]
