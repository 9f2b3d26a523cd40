"""What is known so far, statement by statement, each with its evidence; and what contradicts what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contract.findings import Check, Json, Where
from contract.statement import Evidence, Fact
from eagle3_contract.init.rules import CONTRADICTION

_SURER: Final = {"assumed": 0, "code_rule": 1, "config": 1, "declared": 2, "measured": 3}


class Ledger:
    """Contract path to ``Fact``. A measurement replaces what was only declared; where the two differ, that is a violation."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.likely: dict[str, Any] = {}
        self.checks: list[Check] = []
        self.notes: list[str] = []

    def know(self, path: str, value: Any, evidence: Evidence, note: str) -> None:
        """State a value, whatever was stated before."""
        self.facts[path] = Fact(known=True, value=plain_value(value), evidence=evidence, note=note)

    def fill(self, path: str, value: Any, evidence: Evidence, note: str) -> None:
        """State a value where none is known yet."""
        if not self.is_known(path):
            self.know(path, value, evidence, note)

    def forget(self, path: str, reason: str) -> None:
        """State that something is not known, and why."""
        self.facts[path] = Fact(known=False, reason=reason)

    def leave_open(self, path: str, reason: str) -> None:
        """``forget`` where nothing is stated yet."""
        self.facts.setdefault(path, Fact(known=False, reason=reason))

    def explain(self, path: str, reason: str) -> None:
        """Add to the reason why something is not known."""
        before = self.facts.get(path)
        if before is None or not before.known:
            self.forget(path, f"{before.reason}; {reason}" if before is not None and before.reason else reason)

    def measure(self, path: str, value: Any, note: str, *, where: Where | None = None) -> None:
        """State what was measured. If something else was stated on any evidence but an assumption, both sides become a violation."""
        before = self.facts.get(path)
        value = plain_value(value)
        if before is not None and before.known and before.value != value:
            if before.evidence != "assumed":
                self.contradict(path, before, value, note, where=where)
            note = f"{note}; {before.evidence} said {text_of(before.value)}"
        self.know(path, value, "measured", note)

    def contradict(self, path: str, before: Fact, value: Any, note: str, *, where: Where | None = None) -> None:
        """A violation with both sides: what was stated, and what was found."""
        self.checks.append(
            CONTRADICTION.failed(
                f"{path}: {before.evidence} says {text_of(before.value)} ({before.note}), found {text_of(value)} ({note})",
                expected=plain_value(before.value),
                actual=plain_value(value),
                where=where or Where(key=path),
            )
        )

    def is_known(self, path: str) -> bool:
        fact = self.facts.get(path)
        return fact is not None and fact.known

    def value(self, path: str) -> Any:
        """The value, or None if it is not known."""
        fact = self.facts.get(path)
        return fact.value if fact is not None and fact.known else None

    def take(self, facts: Mapping[str, Fact], likely: Mapping[str, Any]) -> None:
        """Take over an adapter's statements. An answer of the user replaces what config or code say, and is contradicted by tensors."""
        for path, fact in facts.items():
            mine, value = self.facts.get(path), plain_value(fact.value)
            if mine is None or (not mine.known and fact.known):
                self.facts[path] = Fact(known=fact.known, value=value, reason=fact.reason, evidence=fact.evidence, note=fact.note)
            elif mine.known and fact.known and mine.value != value:
                if _SURER[fact.evidence or "assumed"] > _SURER[mine.evidence or "assumed"]:
                    self.measure(path, value, fact.note or "the tensors")
                else:
                    self.know(
                        path, mine.value, mine.evidence or "declared", f"{mine.note}; {fact.evidence} says {text_of(value)}: {fact.note}"
                    )
        self.likely.update({path: plain_value(value) for path, value in likely.items()})


def plain_value(value: Any) -> Json:
    """A value as the file has it: lists for tuples, strings for enums."""
    if isinstance(value, list | tuple):
        return [plain_value(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): plain_value(v) for k, v in value.items()}
    return str(value) if isinstance(value, str) else value


def text_of(value: Any) -> str:
    """A value in a message: as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + ", ".join(text_of(v) for v in value) + "]"
    return str(value)
