"""Apply waivers to a report: a failure that one covers is waived and shown; what is wrong with the waivers is a check of its own.

Only a *failed* check can be waived. A rejected input, a failed tool and an undecided check say nothing that somebody could accept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from contract.findings import Check, Status, Where
from contract.reporting import Report
from contract.waivers.load import Waivers, covers_rule
from contract.waivers.match import engine_in_scope, engine_of, in_scope
from contract.waivers.model import Waiver
from contract.waivers.rules import EXPIRED, OWN_AREAS, SILENT, UNUSED


def apply_waivers(report: Report, waivers: Waivers, *, today: date) -> Report:
    """The report with waived failures and the checks on the waivers appended. ``today`` is a day in UTC."""
    active = [(index, waiver) for index, waiver in enumerate(waivers.waivers) if waiver.last_day >= today]
    used: set[int] = set()
    checks = []
    for check in report.checks:
        found = next((index for index, waiver in active if _waives(waiver, check, report)), None)
        if found is None:
            checks.append(check)
        else:
            used.add(found)
            checks.append(_waived(check, waivers, found))
    checks += _expired(waivers, today)
    checks += _unused(report, waivers, [(index, waiver) for index, waiver in active if index not in used])
    provenance = {**report.provenance, "waivers": {"file": waivers.file, "sha256": waivers.sha256, "count": len(waivers.waivers)}}
    return replace(report, checks=checks, provenance=provenance)


def _waives(waiver: Waiver, check: Check, report: Report) -> bool:
    if check.status is not Status.FAILED or check.rejected or check.rule.partition(".")[0] in OWN_AREAS:
        return False
    if check.dimension in SILENT and waiver.measured is None:
        return False  # a rule's checks may be more silent than the rule itself
    return covers_rule(waiver.rule, check.rule) and in_scope(waiver.scope, check, engine_of(check, report))


def _waived(check: Check, waivers: Waivers, index: int) -> Check:
    waiver = waivers.waivers[index]
    measured = {} if waiver.measured is None else {"measured": waiver.measured}
    said = f"{check.message} (waived until {waiver.expires}: {waiver.reason})"
    granted = {"reason": waiver.reason, "expires": waiver.expires, **measured, "where": waivers.places[index].as_dict()}
    return replace(check, status=Status.WAIVED, message=said, evidence={**check.evidence, "waiver": granted})


def _expired(waivers: Waivers, today: date) -> Iterator[Check]:
    expired = [(w, place) for w, place in zip(waivers.waivers, waivers.places, strict=True) if w.last_day < today]
    for waiver, where in expired:
        yield EXPIRED.failed(
            f"the waiver of {waiver.rule} expired on {waiver.expires}", where=where, expected=f"{today} or later", actual=waiver.expires
        )
    if waivers.waivers and not expired:
        nearest = min(waiver.expires for waiver in waivers.waivers)
        yield EXPIRED.passed(f"no waiver has expired; the first one does after {nearest}", where=Where(file=waivers.file))


def _unused(report: Report, waivers: Waivers, unused: list[tuple[int, Waiver]]) -> Iterator[Check]:
    for index, waiver in unused:
        where, about = waivers.places[index], [c for c in report.checks if covers_rule(waiver.rule, c.rule)]
        seen = [c for c in about if engine_in_scope(waiver.scope, engine_of(c, report)) or c.status is Status.PASSED]
        if not about:
            yield UNUSED.skipped(f"the waiver of {waiver.rule} was not needed: this run did not apply the rule", where=where)
        elif not seen:
            yield UNUSED.skipped(f"the waiver of {waiver.rule} was not needed: it is for {waiver.scope.engine}", where=where)
        elif any(c.rejected for c in about):
            yield UNUSED.undecided(f"the waiver of {waiver.rule} covers nothing: a rejected input cannot be waived", where=where)
        else:
            yield UNUSED.failed(f"the waiver of {waiver.rule} covers no failure", where=where)
