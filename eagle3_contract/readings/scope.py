"""The state of one reading while a profile is executed: where paths and symbols get their values, and how a rule becomes a field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3_contract.readings.conditions import MISSING, UNKNOWN, Mark, holds, resolve
from eagle3_contract.readings.draft_config import DraftConfig
from eagle3_contract.readings.reading import Field
from eagle3_contract.readings.rules import Hit, Key, Origin, Phase, Rule, Turn, Value
from eagle3_contract.readings.versions import AnyRanged, in_force
from eagle3_contract.readings.view import Target

TURNS: Mapping[Turn, Callable[[Any], Any]] = {
    Turn.SAME: lambda v: v,
    Turn.LENGTH: len,
    Turn.TRUTH: bool,
    Turn.NOT: lambda v: not v,
    Turn.NEXT: lambda v: v + 1,
    Turn.NEXT_EACH: lambda v: [i + 1 for i in v],
    Turn.ONE_AT_LEAST: lambda v: [max(i, 1) for i in v],
    Turn.UPPER: lambda v: str(v).upper(),
    Turn.POST_IF_TRUE: lambda v: "post_norm" if v else "pre_norm",
}
HITS: Mapping[Hit, Callable[[Any], bool]] = {Hit.PRESENT: lambda _: True, Hit.NOT_NULL: lambda v: v is not None, Hit.TRUTHY: bool}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something the engine fails on, and when it would find it."""

    phase: Phase
    error: str
    source: str


@dataclass(slots=True)
class State:
    """Everything one reading knows so far."""

    config: DraftConfig
    target: Target | None
    flags: Mapping[str, Any]
    version: tuple[int, ...]
    runner: str | None
    symbols: Mapping[str, str]
    facts: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Field] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    tensors: set[str] | None = None
    layer: int = 0

    def value(self, path: str) -> Any:
        """The value behind a path (``conditions``); MISSING or UNKNOWN where there is none."""
        return self.found(path)[0]

    def found(self, path: str, *, mark: bool = True) -> tuple[Any, Origin]:
        """The value behind a path and where it came from; ``mark``: whether a config key counts as read."""
        space, _, name = path.partition(":")
        if space == "cfg":
            return self.config.get(name, mark=mark)
        if space == "target":
            return (UNKNOWN if self.target is None else self.target.get(name)), Origin.TARGET
        if space == "flag":
            return _nested(self.flags, name), Origin.FLAG
        if space == "field":
            known = self.fields.get(name)
            return (MISSING if known is None else known.value if known.known else UNKNOWN), known.origin if known else Origin.UNKNOWN
        if space == "tensor":
            return (UNKNOWN if self.tensors is None else True if name in self.tensors else MISSING), Origin.KEY
        if space == "file":
            return self.facts.get(name, MISSING), Origin.KEY
        raise ValueError(f"unknown namespace in path {path!r}")

    def symbol(self, name: str) -> Any:
        """A letter of a sum. ``IN`` is the input width of the current layer's attention: 2H in the first, H after it."""
        if name == "IN":
            width = self.value(self.symbols["H"])
            return width * (2 if self.layer == 0 else 1) if isinstance(width, int) else UNKNOWN
        return self.value(self.symbols[name])

    def shown(self, path: str) -> str:
        """A path as a report names it: the key in the file, ``target.vocab_size``, ``--flag``."""
        space, _, name = path.partition(":")
        if space == "cfg":
            return self.config.key(name)
        return f"target.{name}" if space == "target" else f"--{name}" if space == "flag" else name

    def in_force(self, rules: Iterable[AnyRanged]) -> tuple[AnyRanged, ...]:
        """The rules that hold at this reading's version and runner."""
        return in_force(rules, self.version, self.runner)

    def apply(self, rule: Rule) -> Field:
        """Execute a rule, keep its field, and return it. No choice applies: the engine fails when it builds the module."""
        looked: list[str] = []
        for choice in self.in_force(rule.choices):
            field_ = self._try(rule, choice, looked)
            if field_ is not None:
                break
        else:
            missing = looked[-1] if looked else rule.field
            self.faults.append(Fault(Phase.BUILD, f"AttributeError: the config has no {missing}", rule.source))
            field_ = unknown_field(rule.field, f"the config has no {missing}", rule.source, looked)
        self.fields[rule.field] = field_
        return field_

    def _try(self, rule: Rule, choice: Key | Value, looked: list[str]) -> Field | None:
        source = choice.source or rule.source
        applies = True if choice.when is None else holds(choice.when, self)
        if applies is None:
            return unknown_field(rule.field, "depends on what was not given (the target's config or the tensors' values)", source, looked)
        if not applies:
            return None
        if isinstance(choice, Value):
            return self._valued(rule, choice, looked, source)
        looked.append(self.shown(choice.path))
        value, origin = self.found(choice.path, mark=choice.turn is not Turn.LENGTH)
        if value is UNKNOWN:
            return unknown_field(rule.field, f"depends on {looked[-1]}, which was not given", source, looked)
        if value is MISSING or not HITS[choice.hit](value):
            return None
        try:
            turned = TURNS[choice.turn](value)
        except TypeError as error:
            self.faults.append(Fault(Phase.BUILD, f"TypeError: {error} ({looked[-1]} is {value!r})", source))
            return unknown_field(rule.field, f"{looked[-1]} has the wrong type", source, looked)
        return Field(rule.field, turned, True, origin, looked[-1], tuple(looked), rule.text, source)

    def _valued(self, rule: Rule, choice: Value, looked: list[str], source: str) -> Field:
        value, origin, key = choice.value, choice.origin, None
        if isinstance(value, str) and value[:1] == "=":
            value = resolve(value, self)
            value = int(value) if isinstance(value, float) and value.is_integer() else value
        elif isinstance(value, str) and value[:1] == "@":
            copied = self.fields.get(value[1:])
            if copied is None or not copied.known:
                value = UNKNOWN
            else:
                value, key = copied.value, copied.key
                origin = copied.origin if origin is Origin.HARD_CODED else origin
        if isinstance(value, Mark):
            reason = choice.rule if choice.value is UNKNOWN else "depends on what is not known"
            return unknown_field(rule.field, reason, source, looked)
        return Field(rule.field, value, True, origin, key, tuple(looked), choice.rule or rule.text, source)


def unknown_field(name: str, reason: str, source: str, looked: Iterable[str] = ()) -> Field:
    """A field whose value cannot be said, and why."""
    return Field(name, None, False, Origin.UNKNOWN, None, tuple(looked), reason, source)


def _nested(flags: Mapping[str, Any], name: str) -> Any:
    value: Any = flags
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value
