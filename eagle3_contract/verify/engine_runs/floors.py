"""What the measured noise floor does to the tolerances, and to verdicts where it is above their caps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from contract.findings import Check, Depth, Status, Where
from contract.numerics.tolerance import FLOOR_FACTOR, MEDIAN_CAP, WORST_CAP, NoTolerance, Policy, Tolerance, tolerance_for
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import State
from eagle3_contract.verify import state_rules
from eagle3_contract.verify.divergence import LOGIT_CAPS
from eagle3_contract.verify.engine_runs import rules
from eagle3_contract.verify.engine_runs.noise import Floor, Noise
from eagle3_contract.verify.engine_runs.twins import LOGITS

_BY_DISTANCE: Final = frozenset({state_rules.ROWS.id, state_rules.UNEXPLAINED.id, state_rules.AMBIGUOUS.id})
"""Findings that say nothing but that a distance is beyond its tolerance."""


def policy_of(contract: Contract) -> Policy:
    """The caps for states: lowered to what the contract allows."""
    limit = contract.tolerances.states
    return Policy() if limit is None else Policy(min(MEDIAN_CAP, limit), min(WORST_CAP, limit))


def state_floor(noise: Noise, state: State | None) -> Floor | None:
    """The floor of the slot that carries a state; of the noisiest slot if none does, or for None."""
    fed = noise.bundle.manifest.recipe_fed
    floors = [(s, f) for i, s in enumerate(fed) if (f := noise.floor(f"slot.{i}")) is not None]
    own = [f for s, f in floors if s == state] or [f for _, f in floors]
    return max(own, key=lambda f: (f.median, f.worst), default=None)


def state_tolerance(dtype: str, layers: int, floor: Floor | None, contract: Contract) -> Tolerance | NoTolerance:
    """The larger of the dtype's bound and three times the floor, capped; ``NoTolerance`` for a floor above the cap."""
    return tolerance_for(
        dtype, layers=layers, floor=None if floor is None else floor.median, worst_floor=None if floor is None else floor.worst,
        policy=policy_of(contract),
    )  # fmt: skip


def logit_tolerance(bound: Tolerance, noise: Noise | None, contract: Contract) -> Tolerance:
    """A bound for logits, widened by their own floor where that is below the cap, and at most as wide as the contract says."""
    floor = None if noise is None else noise.floor(LOGITS)
    limit = contract.tolerances.logits
    caps = _logit_caps(limit)
    if floor is not None and floor.median <= caps[0] and floor.worst <= caps[1]:
        median, worst = (FLOOR_FACTOR * x for x in (floor.median, floor.worst))
        if median > bound.median or worst > bound.worst:
            bound = Tolerance(min(max(median, bound.median), caps[0]), min(max(worst, bound.worst), caps[1]), "noise floor")
    if limit is None:
        return bound
    return Tolerance(min(bound.median, limit), min(bound.worst, limit), "contract")


def floor_checks(noise: Noise, contract: Contract) -> Iterator[Check]:
    """Whether the floor is below the caps: one check per slot, one for the logits."""
    caps = policy_of(contract)
    limits = [(name, (caps.median_cap, caps.worst_cap)) for name in noise.slots] + [(LOGITS, _logit_caps(contract.tolerances.logits))]
    for name, (median, worst) in limits:
        floor = noise.floor(name)
        if floor is None:
            continue
        text = (
            f"{name}: the measured floor is {floor.median:.2g} in the median row, {floor.worst:.2g} in row {floor.row} of {floor.request}"
        )
        where = Where(tensor=name, sample=floor.request, row=floor.row)
        expected = f"median <= {median:.2g}, worst <= {worst:.2g}"
        if floor.median <= median and floor.worst <= worst:
            yield rules.NOISE.passed(text, expected=expected, evidence=floor.as_json())
        else:
            yield rules.NOISE.undecided(
                f"{text}, above the largest tolerance allowed: states that differ cannot be told from noise",
                at=Depth.VERIFY, expected=expected, where=where, fix=rules.NOISE.remedy, evidence=floor.as_json(),
            )  # fmt: skip


def under_noise(checks: Iterable[Check], noise: Noise | None, contract: Contract) -> Iterator[Check]:
    """The checks of states, with those undecided that rest on a distance where the floor is above the cap."""
    drowned = set() if noise is None else {c.where.tensor for c in floor_checks(noise, contract) if c.status is Status.UNKNOWN and c.where}
    for check in checks:
        slot = None if check.where is None else check.where.slot
        if check.status is Status.FAILED and check.rule in _BY_DISTANCE and slot is not None and f"slot.{slot}" in drowned:
            message = f"{check.message}; but the engine's own noise in this slot is as large as that"
            yield replace(check, status=Status.UNKNOWN, required=True, message=message)
        else:
            yield check


def _logit_caps(limit: float | None) -> tuple[float, float]:
    median, worst = LOGIT_CAPS
    return (median, worst) if limit is None else (min(median, limit), min(worst, limit))
