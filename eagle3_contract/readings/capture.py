"""Which states of the target reach the drafter, and in which order: the ids, what they mean, and what happens to odd ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagle3_contract.model.states import FINAL_NORM
from eagle3_contract.model.states import State as Captured
from eagle3_contract.readings.conditions import MISSING, UNKNOWN, resolve
from eagle3_contract.readings.reading import BOUNDARIES, Field
from eagle3_contract.readings.rules import BadIds, Beyond, Capture, Family, IdTest, Order, Origin, Phase, Shift
from eagle3_contract.readings.scope import Fault, State, unknown_field

SUPPORTED = "hidden_states.supported"
"""Whether the target's class can capture at all in this version."""
POINT = "hidden_states.point"
"""Which stream is captured (the contract's ``hidden_states.point``)."""


def read_boundaries(capture: Capture, state: State) -> Field:
    """The boundaries that are fed, in order, as a field; adds the faults that malformed or unreachable ids lead to."""
    enabled = state.apply(capture.enabled)
    if not enabled.known:
        return unknown_field(BOUNDARIES, enabled.rule, enabled.source, enabled.looked_for)
    if not enabled.value:
        reason = enabled.rule or f"{enabled.key} is {enabled.value!r}: the target's normed last state is fed"
        return Field(BOUNDARIES, [FINAL_NORM], True, enabled.origin, enabled.key, enabled.looked_for, reason, enabled.source)
    rule = next(iter(state.in_force(capture.ids)), None)
    if rule is None:
        return unknown_field(BOUNDARIES, "public sources do not settle which ids are read", "")
    ids = state.apply(rule)
    family = _family(capture, state)
    if family is None:
        return _without_family(capture, state, ids)
    state.fields[SUPPORTED] = Field(SUPPORTED, family.supported, True, Origin.TARGET, "architectures", (), family.name, family.source)
    if not family.supported:
        state.faults.append(Fault(Phase.ATTACH, family.error, family.source))
        return unknown_field(BOUNDARIES, family.error, family.source, ids.looked_for)
    state.fields[POINT] = Field(POINT, family.stream, True, Origin.HARD_CODED, None, (), family.name, family.source)
    if not ids.known:
        return unknown_field(BOUNDARIES, ids.rule, ids.source, ids.looked_for)
    return _captured(capture, state, family, ids)


def _family(capture: Capture, state: State) -> Family | None:
    architecture = state.value("target:architecture")
    families = state.in_force(capture.families)
    named = [f for f in families if architecture in f.targets]
    everyone = [f for f in families if not f.targets]
    agreed = {(f.shifts, f.default, f.highest, f.beyond, f.short_error, f.embedding_error) for f in families if f.supported}
    if architecture is MISSING and len(agreed) == 1:
        everyone.append(families[0])
    return next(iter(named + everyone), None)


def _without_family(capture: Capture, state: State, ids: Field) -> Field:
    """The target is not given, or its class is in no table: what every family agrees on is still known."""
    families = [f for f in state.in_force(capture.families) if f.supported]
    architecture = state.value("target:architecture")
    if any(architecture in f.targets for f in capture.families):
        error = f"the target class {architecture} has no capture hook in this version"
        source = families[0].source if families else ids.source
        state.faults.append(Fault(Phase.ATTACH, error, source))
        state.fields[SUPPORTED] = Field(SUPPORTED, False, True, Origin.TARGET, "architectures", (), error, source)
        return unknown_field(BOUNDARIES, error, ids.source, ids.looked_for)
    reason = (
        "the target's config was not given; what an id means depends on its class"
        if state.target is None
        else f"the target class {architecture} is not in the table of this engine and version"
    )
    return unknown_field(BOUNDARIES, reason, ids.source, ids.looked_for)


def _captured(capture: Capture, state: State, family: Family, ids: Field) -> Field:
    wanted, found = _wanted(capture, state, family, ids)
    if wanted is None:
        return unknown_field(BOUNDARIES, found, family.source, ids.looked_for)
    layers = state.symbol("N")
    if not isinstance(layers, int):
        return unknown_field(BOUNDARIES, "the target's config does not give its number of layers", family.source, ids.looked_for)
    highest = resolve("=" + family.highest, state)
    if family.beyond is Beyond.INDEX:
        if any(not -layers <= b < layers for b in wanted):
            state.faults.append(Fault(Phase.ATTACH, "IndexError: list index out of range", family.source))
        wanted = [b + layers if b < 0 else b for b in wanted]
    if family.last and ids.value:
        last = resolve("=" + family.last, state)
        wanted = [layers if b == last else last if b == layers else b for b in wanted]
    reachable = sorted({int(b) for b in wanted if b == b // 1 and 0 <= b <= highest})
    order: list[Captured] = list(reachable) if capture.order is Order.ASCENDING else [int(b) for b in wanted if b in reachable]
    if family.final_norm_id is not None and isinstance(ids.value, list) and family.final_norm_id in ids.value:
        order = [FINAL_NORM, *order] if family.final_norm_first else [*order, FINAL_NORM]
    _check(capture, state, family, wanted, order)
    explicit = found.startswith("boundary")
    origin = ids.origin if explicit or ids.origin is Origin.HARD_CODED else Origin.DEFAULT
    key = ids.key if explicit else None
    return Field(BOUNDARIES, order, True, origin, key, ids.looked_for, _words(family, found, wanted, order), family.source)


def _wanted(capture: Capture, state: State, family: Family, ids: Field) -> tuple[list[Any] | None, str]:
    """The boundaries asked for, possibly unreachable or repeated; None with the reason if the engine fails on the ids."""
    value = ids.value
    standard = [resolve("=" + b, state) for b in family.default]
    if value is None or (capture.not_a_list is BadIds.DEFAULT and not (value and isinstance(value, list))):
        return (None, "the target's number of layers is not given") if UNKNOWN in standard else (standard, "default")
    if value in ("", {}):
        value = []  # Python walks over it and finds nothing
    if not isinstance(value, list):
        return _bad(state, family, f"TypeError: the ids are no list: {value!r}", Phase.ATTACH)
    numbers = [i for i in value if isinstance(i, int | float)]
    if len(numbers) < len(value):
        if capture.not_numbers is BadIds.ERROR or numbers:
            return _bad(state, family, f"TypeError: the ids are no numbers: {value!r}", Phase.ATTACH)
        return _bad(state, family, "ValueError: no id names a layer, nothing is captured", Phase.FIRST_REQUEST)
    numbers = [i for i in numbers if family.final_norm_id is None or i != family.final_norm_id]
    shift = next((s for s in family.shifts if _shift_applies(s, numbers, state.symbol("N"))), Shift(by=0))
    words = f"boundary = id{f' + {shift.by}' if shift.by else ''}" + ("" if shift.when is IdTest.ALWAYS else f", as {shift.when.value}")
    return [i + shift.by for i in numbers], words


def _bad(state: State, family: Family, error: str, phase: Phase) -> tuple[None, str]:
    state.faults.append(Fault(phase, error, family.source))
    return None, error


def _shift_applies(shift: Shift, ids: Sequence[float], layers: Any) -> bool:
    if shift.when is IdTest.ALWAYS:
        return True
    if not ids:
        return False
    return ids[0] == 1 if shift.when is IdTest.FIRST_IS_ONE else max(ids) == layers


def _check(capture: Capture, state: State, family: Family, wanted: list[Any], order: list[Captured]) -> None:
    """The faults of a capture that is not what was asked for."""
    if family.embedding_error and 0 in wanted:
        state.faults.append(Fault(Phase.FIRST_REQUEST, family.embedding_error, family.source))
    if family.short_error and len(order) < len(wanted):
        error = family.short_error.format(captured=len(order), wanted=len(wanted))
        state.faults.append(Fault(Phase.FIRST_REQUEST, error, family.source))
    if not order:
        state.faults.append(Fault(Phase.FIRST_REQUEST, capture.empty_error or "no state is captured", family.source))
    if capture.exactly is not None and len(order) != capture.exactly:
        error = f"exactly {capture.exactly} states are needed, {len(order)} are captured"
        state.faults.append(Fault(Phase.ATTACH, error, family.source))


def _words(family: Family, found: str, wanted: list[Any], order: list[Captured]) -> str:
    parts = [f"{family.name}: {found}"]
    if lost := [b for b in dict.fromkeys(wanted) if b not in order]:
        parts.append(f"never captured: {lost}")
    if len(set(wanted)) < len(wanted):
        parts.append("duplicates are captured once")
    if [b for b in dict.fromkeys(wanted) if b in order] != [b for b in order if b != FINAL_NORM]:
        parts.append("fed in ascending order")
    if family.stream != "residual":
        parts.append(f"stream: {family.stream}")
    return "; ".join(parts)


def count(state: State) -> Any:
    """How many states are fed: the length of the boundaries, or UNKNOWN."""
    field = state.fields.get(BOUNDARIES)
    return len(field.value) if field is not None and field.known else UNKNOWN
