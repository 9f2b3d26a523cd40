"""A seeded fault: a drafter that keeps its contract, one change to it, and what must be said about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factory import Pair, pair

from eagle3_contract.check.context import Integrity

Change = Callable[[Pair], Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One incident.

    Attributes:
        rule: the rule that must speak.
        change: breaks the pair before it is written; ``after`` breaks the folder afterwards.
        base: makes the clean twin, which is kept.
        exit: 1 for a violation, 2 for an unusable input, 3 for a required unknown, 0 for a warning.
        twin: what the clean twin ends with; 3 where public sources leave a required field of the engine open.
        warns: the rule only ever warns.
        says: words that the message must hold.
        target: writes a target beside the drafter, for both twins; its path is given to the check. ``broken_target`` for the fault only.
        engines: read by the check, for both twins; ``broken_engines`` for the fault only.
        flags: serving flags by engine, as a command line each; ``broken_flags`` for the fault only.
    """

    name: str
    rule: str
    change: Change = lambda _: None
    after: Callable[[Path], Any] = lambda _: None
    base: Callable[[], Pair] = pair
    exit: int = 1
    twin: int = 0
    warns: bool = False
    says: tuple[str, ...] = ()
    integrity: Integrity = Integrity.HEADERS
    target: Callable[[Path], Path] | None = None
    engines: tuple[str, ...] = ()
    broken_target: Callable[[Path], Path] | None = None
    broken_engines: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    broken_flags: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def put(pair_: Pair, path: str, value: Any) -> None:
    """Set ``contract.wiring.head_dim`` or ``config.eagle_config.x`` of a pair; the last part may have dots after a colon."""
    root, _, rest = path.partition(".")
    at: Any = getattr(pair_, root)
    *parents, last = rest.split(".") if ":" not in rest else [*rest.split(":")[0].split("."), rest.split(":", 1)[1]]
    for part in parents:
        at = at[part]
    at[last] = value


def setting(path: str, value: Any) -> Change:
    """The change that sets one value."""
    return lambda p: put(p, path, value)


def without(path: str) -> Change:
    """The change that removes one key."""

    def change(p: Pair) -> None:
        root, _, rest = path.partition(".")
        at: Any = getattr(p, root)
        *parents, last = rest.split(".")
        for part in parents:
            at = at[part]
        del at[last]

    return change


def both(*changes: Change) -> Change:
    """Several changes that make one fault."""

    def change(p: Pair) -> None:
        for one in changes:
            one(p)

    return change
