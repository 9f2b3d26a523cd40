"""Captured states against the states of training, slot by slot: which state each slot carries, and by what margin.

Legend: T rows (tokens), G target hidden size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor

from contract.findings import Check, Depth, Json, Rule, Where
from contract.numerics.explanations import Attribution, Explanation, Kind
from contract.numerics.matching import Candidate, attribute_all
from contract.numerics.tolerance import Tolerance
from eagle3_contract.model.states import FINAL_NORM, Recipe, State, recipe_text, state_name
from eagle3_contract.verify import state_rules as rules

_KIND_RULE: Final = {
    Kind.ZEROS: rules.EMPTY,
    Kind.CONSTANT: rules.EMPTY,
    Kind.FOREIGN: rules.OTHER_SAMPLE,
    Kind.PREFIX: rules.OTHER_SAMPLE,
    Kind.SHIFT: rules.SHIFTED,
    Kind.REVERSED: rules.SHIFTED,
    Kind.PERMUTED: rules.SHIFTED,
    Kind.HALF: rules.PARTIAL,
    Kind.SWAPPED_HALVES: rules.PARTIAL,
    Kind.SCALED: rules.SCALED,
    Kind.RMS_NORM: rules.NORMED,
    Kind.ROTATED: rules.UNEXPLAINED,
    Kind.DERIVED: rules.PARTIAL,
}


AT_HAND: Final = (
    "Give the training samples of the same tokens with --samples, or capture every boundary (a server's plugin: EAGLE3_CONTRACT_SWEEP=1)."
)


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A candidate and what it is: ``state`` of the sample itself, or of another document (``sample`` names it)."""

    state: State
    load: Callable[[], Tensor]
    sample: str | None = None

    def on(self, device: torch.device) -> Named:
        """The same, loaded to a device."""
        return Named(self.state, lambda: self.load().to(device), self.sample)

    @property
    def name(self) -> str:
        return state_name(self.state) if self.sample is None else f"{state_name(self.state)} of {self.sample}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotVerdict:
    """What one slot of one request carries.

    ``rule`` is the rule that speaks (RECIPE's own ``SLOT`` when it is right), ``carried`` the state if it is one, unchanged. ``open``: the
    expected state is not at hand, and the slot is nothing that is.
    """

    request: str
    slot: int
    expected: State | None
    rule: Rule
    right: bool
    carried: State | None
    text: str
    attribution: Attribution
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Tolerances: one for naming a state (as wide as the deepest boundary needs), one for each expected state."""

    naming: Tolerance
    of_state: Callable[[State], Tolerance]


@dataclass(slots=True)
class StateFindings:
    """Collects the verdicts of all requests."""

    verdicts: list[SlotVerdict] = field(default_factory=list)
    carried: list[tuple[str, Recipe | None]] = field(default_factory=list)


def judge_request(
    request: str,
    slots: Sequence[Tensor],
    expected: Recipe,
    candidates: Sequence[Named],
    bounds: Bounds,
    *,
    norm_weights: Mapping[str, Tensor] | None = None,
) -> list[SlotVerdict]:
    """Say for every slot [T, G] of one request which state it carries.

    Args:
        request: its id, for messages.
        slots: what the drafter was fed, in order.
        expected: the contract's recipe.
        candidates: states of this document and of others.
        bounds: tolerances.
        norm_weights: weight [G] of the target's final norm, if at hand.
    """
    by_name = {c.name: c for c in candidates}
    found = attribute_all(
        {str(i): x for i, x in enumerate(slots)},
        [Candidate(c.name, c.load, foreign=c.sample is not None) for c in by_name.values()],
        bounds.naming,
        norm_weights=norm_weights,
    )
    verdicts = [_verdict(request, i, expected[i] if i < len(expected) else None, found[str(i)], by_name, bounds) for i in range(len(slots))]
    return [_where_nothing_is_at_hand(v, slots, expected, by_name) for v in verdicts]


def _where_nothing_is_at_hand(verdict: SlotVerdict, slots: Sequence[Tensor], expected: Recipe, by_name: Mapping[str, Named]) -> SlotVerdict:
    """An unexplained slot whose expected state is not among the candidates is undecided, unless it can be no state of its own: its twin in
    another slot, values that are not finite, rows of zeros."""
    slot, wanted = verdict.slot, verdict.expected
    if verdict.rule is not rules.UNEXPLAINED or wanted is None or state_name(wanted) in by_name:
        return verdict
    twin = next(
        (i for i, x in enumerate(slots) if i != slot and expected[i : i + 1] not in ((), (wanted,)) and torch.equal(x, slots[slot])), None
    )
    if twin is not None:
        return replace(verdict, rule=rules.DUPLICATE, text=f"is slot {twin} once more, bit for bit")
    rows_TG = slots[slot]
    if not rows_TG.numel() or not bool(rows_TG.isfinite().all()) or bool((rows_TG == 0).all(-1).any()):
        return verdict
    there = ", ".join(c.name for c in by_name.values() if c.sample is None) or "no state"
    return replace(verdict, open=True, text=f"cannot be named: {state_name(wanted)} is not at hand, recorded is {there} ({verdict.text})")


def _verdict(
    request: str, slot: int, expected: State | None, found: Attribution, by_name: Mapping[str, Named], bounds: Bounds
) -> SlotVerdict:
    best = found.best
    wanted = None if expected is None else state_name(expected)

    def verdict(rule: Rule, text: str, *, right: bool = False, carried: State | None = None) -> SlotVerdict:
        return SlotVerdict(
            request=request, slot=slot, expected=expected, rule=rule, right=right, carried=carried, text=text, attribution=found
        )

    if best is None or not (found.matched or found.ambiguous):
        if best is not None and best.kind is Kind.IDENTITY and best.name == wanted and best.median <= bounds.naming.median:
            return verdict(rules.ROWS, f"most rows carry {best.name}, some do not: {found.reason}", carried=expected)
        return verdict(rules.UNEXPLAINED, found.reason)
    if found.ambiguous:
        return verdict(rules.AMBIGUOUS, f"may be {found.reason}")
    named = by_name.get(best.name)
    if best.kind is not Kind.IDENTITY:
        return verdict(_KIND_RULE[best.kind], f"carries {found.reason}")
    assert named is not None, best.name
    if named.state != expected:
        rule = rules.NORMED if FINAL_NORM in (named.state, expected) else rules.SLOT
        return verdict(rule, f"carries {found.reason}", carried=named.state)
    own = bounds.of_state(named.state)
    if not own.allows(best.median, best.worst, best.summary.worst_sink):
        return verdict(
            rules.ROWS,
            f"carries {found.reason}, beyond the tolerance of that state (median {own.median:.2g}, worst {own.worst:.2g})",
            carried=named.state,
        )
    return verdict(rules.SLOT, f"carries {found.reason}", right=True, carried=named.state)


def state_checks(verdicts: Sequence[SlotVerdict], expected: Recipe, *, reason: str = "", fix: str | None = None) -> Iterator[Check]:
    """The checks of all requests: one for the recipe as a whole, then one for each slot and each way it is wrong.

    Args:
        verdicts: of all requests.
        expected: the contract's recipe.
        reason: why the engine fed what it fed, from its reading; appended to the recipe's message.
        fix: what to write so that the engine feeds the contract's recipe, from its reading.
    """
    requests = list(dict.fromkeys(v.request for v in verdicts))
    carried = {r: [v for v in verdicts if v.request == r] for r in requests}
    yield from _recipe_checks(carried, expected, reason, fix)
    groups: dict[tuple[int, str, str], list[SlotVerdict]] = {}
    for v in sorted(verdicts, key=lambda v: v.slot):
        kind = "" if v.attribution.best is None else f"{v.attribution.best.name} {v.attribution.best.kind}"
        groups.setdefault((v.slot, v.rule.id, "right" if v.right else "open" if v.open else kind), []).append(v)
    for group in groups.values():
        yield _slot_check(group, fix)


def _recipe_checks(carried: Mapping[str, Sequence[SlotVerdict]], expected: Recipe, reason: str, fix: str | None) -> Iterator[Check]:
    shapes = Counter(tuple(v.carried for v in slots) for slots in carried.values())
    for states, count in shapes.items():
        if any(s is None for s in states):
            continue  # a slot that is no plain state has its own finding
        fed: Recipe = tuple(s for s in states if s is not None)
        here = [r for r, slots in carried.items() if tuple(v.carried for v in slots) == states]
        evidence = {"requests": here, "expected": list(expected), "carried": list(fed)}
        if fed == expected:
            yield rules.RECIPE.passed(
                f"the slots carry {recipe_text(fed)} as the contract says ({_requests(count)})",
                expected=list(expected), actual=list(fed), evidence=evidence,
            )  # fmt: skip
            continue
        rule, words = _recipe_fault(fed, expected)
        slots = "; ".join(
            f"slot {i} carries {state_name(s)}" + (f" instead of {state_name(expected[i])}" if i < len(expected) else " and should not be")
            for i, s in enumerate(fed)
            if i >= len(expected) or s != expected[i]
        )
        yield rule.failed(
            f"the contract wants {recipe_text(expected)}, the capture carries {recipe_text(fed)}{words}: {slots}"
            + (f". {reason}" if reason else ""),
            expected=list(expected), actual=list(fed), evidence=evidence, fix=fix,
        )  # fmt: skip


def _recipe_fault(fed: Recipe, expected: Recipe) -> tuple[Rule, str]:
    if Counter(fed) == Counter(expected):
        return rules.ORDER, ", the same states in another order"
    if len(fed) == len(expected) and all(isinstance(s, int) for s in (*fed, *expected)):
        steps = {int(f) - int(e) for f, e in zip(fed, expected, strict=True)}
        steps_at_edge = {int(f) - int(e) for f, e in zip(fed, expected, strict=True) if int(e) != 0}
        if steps in ({1}, {-1}) or (steps_at_edge == {-1} and steps <= {0, -1}):
            return rules.OFF_BY_ONE, f", every slot one layer {'late' if 1 in steps else 'early'}"
    repeated = [s for s, n in Counter(fed).items() if n > 1 and expected.count(s) < n]
    if repeated:
        return rules.DUPLICATE, f", {state_name(repeated[0])} more than once"
    return rules.RECIPE, ""


def _slot_check(group: Sequence[SlotVerdict], fix: str | None) -> Check:
    first = max(group, key=lambda v: v.attribution.best.median if v.attribution.best is not None else float("inf"))
    best = first.attribution.best
    wanted = None if first.expected is None else state_name(first.expected)
    where = Where(slot=first.slot, sample=first.request, row=None if first.right or best is None else best.worst_row)
    message = f"slot {first.slot} {first.text} ({_requests(len(group))}, worst of them {first.request})"
    evidence: dict[str, Json] = {
        "requests": {v.request: _figures(v.attribution) for v in group},
        "considered": list(first.attribution.considered),
    }
    more: dict[str, Any] = {"where": where, "expected": wanted, "actual": str(best) if best is not None else None, "evidence": evidence}
    if first.right:
        return first.rule.passed(message, **more)
    wants = f"; the contract wants {wanted}" if wanted else "; the contract has no such slot"
    if first.rule is rules.AMBIGUOUS:
        return first.rule.undecided(message + wants, at=Depth.VERIFY, fix=first.rule.remedy, **more)
    if first.open:
        return first.rule.undecided(message, at=Depth.VERIFY, fix=AT_HAND, **more)
    return first.rule.failed(message + wants, fix=fix if first.rule is rules.SLOT else None, **more)


def _figures(found: Attribution) -> dict[str, Json]:
    def one(e: Explanation | None) -> Json:
        if e is None:
            return None
        sinks = [{"row": s.row, "error": s.error, "median_norms": s.factor} for s in e.sinks]
        return {"is": str(e), "median": e.median, "worst": e.worst, "worst_row": e.worst_row, "sinks": sinks}

    return {"best": one(found.best), "next_best": one(found.runner_up), "margin": found.margin}


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
