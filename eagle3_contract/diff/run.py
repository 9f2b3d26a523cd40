"""``contract diff`` as a report: a failed check for a breaking change, a notice for any other, a passed one for an area at rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Json, Where
from contract.limits import DEFAULT_LIMITS, Limits
from contract.report.escape import value_text
from contract.reporting import Report
from contract.requests import DiffRequest
from contract.source import Document
from eagle3_contract.diff import rules
from eagle3_contract.diff.changes import Change, How, changes
from eagle3_contract.diff.leaves import Leaf, key_text, leaves
from eagle3_contract.diff.source import read_contract

SHOWN: Final = 120
"""Characters of a value in a message; ``expected`` and ``actual`` have all of it."""


def diff(request: DiffRequest, *, limits: Limits = DEFAULT_LIMITS) -> Report:
    """Compare two contracts statement by statement.

    Raises:
        UserError: one of them cannot be read (see ``read_contract``).
    """
    (old, old_document), (new, new_document) = (read_contract(s, limits=limits) for s in (request.old, request.new))
    found = list(changes(leaves(old), leaves(new)))
    checks = [_check(change, old_document, new_document) for change in found]
    broken = {change.entry.area for change in found if change.breaking}
    checks += _at_rest(found, broken)
    counted: dict[str, Json] = {"changes": len(found), "breaking": sum(c.breaking for c in found)}
    return Report(command="diff", subject={"old": request.old, "new": request.new}, checks=checks, measurements={"diff": counted})


def _at_rest(found: list[Change], broken: set[str]) -> Iterator[Check]:
    for area, rule in rules.AREA_RULES.items():
        if area not in broken:
            count = sum(c.entry.area == area for c in found)
            yield rule.passed(f"{area}: " + (f"{count} changes, none of them breaking" if count else "no change"))


def _check(change: Change, old: Document, new: Document) -> Check:
    rule = rules.AREA_RULES[change.entry.area]
    if not change.breaking:
        rule = rules.UNCOMPARABLE if change.how is How.UNCOMPARABLE else rules.COMPATIBLE
    before, after = _side(change.old, old), _side(change.new, new)
    text = f"{key_text(change.key)} {change.how.value}: {_text(change.old, before)} -> {_text(change.new, after)}"
    make = rule.failed if change.breaking else rule.undecided
    more: dict[str, Json] = {} if change.breaking else {"required": False}
    document, leaf = (new, change.new) if change.new is not None else (old, change.old)
    assert leaf is not None
    return make(
        f"{text}: {'breaking' if change.breaking else 'not breaking'}, {change.reason}",
        where=document.where(leaf.at),
        expected=_value(change.old),
        actual=_value(change.new),
        evidence={"change": change.how.value, "breaking": change.breaking, "old": _place(before), "new": _place(after)},
        **more,
    )


def _side(leaf: Leaf | None, document: Document) -> Where | None:
    return None if leaf is None else document.where(leaf.at)


def _text(leaf: Leaf | None, where: Where | None) -> str:
    if leaf is None or where is None:
        return "(not stated)"
    said = value_text(_value(leaf)) if leaf.fact.known else f"unknown ({leaf.fact.reason})"
    said = said if len(said) <= SHOWN else f"{said[:SHOWN]}..."
    return f"{said} (line {where.line})"


def _place(where: Where | None) -> Json:
    return None if where is None else {"file": where.file, "line": where.line}


def _value(leaf: Leaf | None) -> Json:
    if leaf is None:
        return None
    return leaf.fact.value if leaf.fact.known else {"unknown": leaf.fact.reason}
