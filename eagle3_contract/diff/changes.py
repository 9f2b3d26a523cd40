"""The differences between two contracts, each with the table's judgement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from contract.statement import Fact
from eagle3_contract.diff.leaves import Key, Leaf
from eagle3_contract.diff.table import Entry, Judgement, entry_of


class How(StrEnum):
    """What happened to a statement."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    LEARNED = "became known"
    FORGOTTEN = "became unknown"
    EXPLAINED = "explained otherwise"
    """The same value (or still unknown) with other evidence, note or reason."""
    UNCOMPARABLE = "unknown on both sides"
    """A digest that neither side knows: nothing says that it is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. ``old`` and ``new`` are None where that side has no such statement."""

    key: Key
    how: How
    old: Leaf | None
    new: Leaf | None
    entry: Entry
    breaking: bool
    reason: str


def changes(old: Mapping[Key, Leaf], new: Mapping[Key, Leaf]) -> Iterator[Change]:
    """Every difference, in the order of the old contract, then what only the new one has. A section that came or went is one change."""
    for key in [*old, *(k for k in new if k not in old)]:
        before, after = old.get(key), new.get(key)
        if (before is None or after is None) and _told_by_parent(key, old, new):
            continue
        how = _how(before, after, entry_of(key))
        if how is not None:
            entry = entry_of(key)
            breaking, reason = _judge(how, before, after, entry)
            yield Change(key=key, how=how, old=before, new=after, entry=entry, breaking=breaking, reason=reason)


def _told_by_parent(key: Key, old: Mapping[Key, Leaf], new: Mapping[Key, Leaf]) -> bool:
    parents = [key[:end] for end in range(1, len(key))]
    return any((p in old) != (p in new) or (p in old and old[p].section != new[p].section) for p in parents)


def _how(before: Leaf | None, after: Leaf | None, entry: Entry) -> How | None:
    if before is None or after is None:
        return How.ADDED if before is None else How.REMOVED
    if before.section or after.section:
        return None if before.section == after.section else How.ADDED if after.section else How.REMOVED
    old, new = before.fact, after.fact
    if old.known != new.known:
        return How.LEARNED if new.known else How.FORGOTTEN
    if old.known and not same(old.value, new.value):
        return How.CHANGED
    if (old.evidence, old.note, old.reason) != (new.evidence, new.note, new.reason):
        return How.EXPLAINED
    return How.UNCOMPARABLE if not old.known and entry.digest else None


def _judge(how: How, before: Leaf | None, after: Leaf | None, entry: Entry) -> tuple[bool, str]:
    if how is How.UNCOMPARABLE:
        return False, "nothing says that the two are the same: two unknown digests never compare equal"
    if how is How.EXPLAINED:
        return False, "the same statement, otherwise explained"
    if entry.judgement is Judgement.FREE:
        return False, entry.why
    if how is How.LEARNED:
        return False, "what was open is now stated; nobody could rely on it before"
    if how is How.FORGOTTEN:
        return True, f"what was stated is open now, so that nothing can be held against it ({entry.why})"
    if how is How.ADDED:
        return entry.judgement is Judgement.FIXED, entry.why if entry.judgement is Judgement.FIXED else "more is promised than before"
    if how is How.REMOVED:
        return True, entry.why
    assert before is not None
    assert after is not None
    if entry.judgement in (Judgement.FIXED, Judgement.KEPT):
        return True, entry.why
    weaker = weakened(before.fact, after.fact, entry.judgement)
    return weaker, entry.why if weaker else "stricter than before: whoever relied on the old value is served as well"


def same(a: Any, b: Any) -> bool:
    """Equality that tells ``true`` from 1, also within lists."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def weakened(old: Fact, new: Fact, judgement: Judgement) -> bool:
    """Whether a bound or a promise became weaker.

    ``NOT_LOWER``: a number, a list of numbers (any entry lower, or fewer entries) or a name of ``RANKS``. ``NOT_HIGHER``: a number, and
    null stands for the built-in bound, which a number can only tighten.
    """
    a, b = old.value, new.value
    if judgement is Judgement.NOT_HIGHER:
        return b is None or (a is not None and b > a)
    if isinstance(a, list):
        return len(b) < len(a) or any(y < x for x, y in zip(a, b, strict=False))
    return bool(RANKS.get(b, b) < RANKS.get(a, a))


RANKS: Mapping[Any, int] = {"tool": 0, "trainer": 1}
"""Of ``golden.produced_by``: rows of the trainer prove more than rows of this tool."""
