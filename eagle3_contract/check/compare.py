"""The one way in which a rule compares what the contract states with what was found."""

from __future__ import annotations

import math
from typing import Any

from contract.findings import Check, Json, Rule, Where
from eagle3_contract.check.context import CheckContext


def same(a: Any, b: Any) -> bool:
    """Equality without Python's surprises: True is not 1, 1 is 1.0, NaN is nothing, lists compare item by item, text without case."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        if a == b or (isinstance(a, int) and isinstance(b, int)):
            return a == b
        try:
            return math.isclose(a, b, rel_tol=1e-9)
        except OverflowError:  # a whole number beyond every float
            return False
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        return a.casefold() == b.casefold()
    return bool(a == b) and type(a) is type(b)


def said(value: Any) -> str:
    """A value as messages write it: true, null, [1, 2], text in quotes only where it is empty."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(said(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {said(v)}" for k, v in value.items()) + "}"
    return str(value) or '""'


def agree(
    ctx: CheckContext,
    rule: Rule,
    path: tuple[str, ...],
    actual: Json,
    *,
    found_in: str,
    where: Where | None = None,
    fix: str | None = None,
    consequence: str = "",
) -> Check:
    """Passed if the contract states ``actual`` at ``path``, failed if it states something else, undecided if it is unknown there.

    Args:
        found_in: what holds ``actual``, as the subject of a sentence (``config.json (key head_dim)``).
        where: the place of ``actual``; a failure without one points at the contract.
        consequence: what a mismatch does, one sentence.
    """
    stated, name = ctx.stated(*path), ".".join(path)
    if not stated.known:
        return rule.undecided(f"{found_in} says {said(actual)}; the contract does not say {name}: {stated.reason}", where=ctx.place(*path))
    if same(stated.value, actual):
        return rule.passed(f"{found_in} and the contract ({name}) both say {said(actual)}", expected=stated.value, actual=actual)
    message = f"{found_in} says {said(actual)}, the contract ({name}) says {said(stated.value)}"
    return rule.failed(
        f"{message}. {consequence}" if consequence else message,
        expected=stated.value,
        actual=actual,
        where=where or ctx.place(*path),
        fix=fix,
        evidence={"contract": ctx.place(*path).as_dict()},
    )
