"""Collects a trainer's statements: each with its evidence and source, or the reason it is unknown and what is most plausible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contract.statement import Evidence, Fact

NO_GUESS: Final = object()
"""Stands for "nothing is plausible enough to name", where None is a value (no window)."""


class Statements:
    """Contract path to ``Fact``, filled by an adapter.

    ``sure`` False marks a checkpoint that only looks like this trainer's: its code rules then rest on an assumption and say so.
    """

    def __init__(self, *, sure: bool) -> None:
        self.facts: dict[str, Fact] = {}
        self.likely: dict[str, Any] = {}
        self.notes: list[str] = []
        self._sure = sure

    def config(self, path: str, value: Any, source: str) -> None:
        """Read from a configuration. ``source`` names the key."""
        self._know(path, value, "config", source)

    def config_or(self, path: str, value: Any, source: str, *, reason: str | None = None, likely: Any = NO_GUESS) -> None:
        """``config`` if there is a value, else ``unknown`` (by default because ``source`` is not in config.json)."""
        if value is None:
            self.unknown(path, reason or f"{source} is not in config.json", likely=likely)
        else:
            self.config(path, value, source)

    def rule(self, path: str, value: Any, source: str) -> None:
        """What the trainer's code does whatever the config says. ``source`` is version and file:line."""
        self._know(path, value, "code_rule" if self._sure else "assumed", source)

    def rules(self, values: Mapping[str, Any], source: str) -> None:
        """Several code rules of one source."""
        for path, value in values.items():
            self.rule(path, value, source)

    def measured(self, path: str, value: Any, source: str) -> None:
        """Read from the tensors (which exist, and their shapes)."""
        self._know(path, value, "measured", source)

    def unknown(self, path: str, reason: str, *, likely: Any = NO_GUESS) -> None:
        """Not known, why, and the most plausible value if there is one."""
        self.facts[path] = Fact(known=False, reason=reason)
        self.likely.pop(path, None)
        if likely is not NO_GUESS:
            self.likely[path] = likely

    def value(self, path: str) -> Any:
        """The value stated so far, or None."""
        fact = self.facts.get(path)
        return fact.value if fact is not None and fact.known else None

    def _know(self, path: str, value: Any, evidence: Evidence, source: str) -> None:
        self.facts[path] = Fact(known=True, value=value, evidence=evidence, note=source)
        self.likely.pop(path, None)
