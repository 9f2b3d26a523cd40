"""What comes out: one engine's reading of one drafter, and its JSON form (schema 1 of ``contract read --format json``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from contract.findings import Json
from eagle3_contract.readings.rules import Fate, Origin

SCHEMA_VERSION = 1
BOUNDARIES = "hidden_states.boundaries"
CONFIG_CLASS = "config.class"
"""Only in readings of a drafter whose model_type picks a class that is not known: whatever no key says may be another value."""
FIELDS = (
    BOUNDARIES,
    "fc.applied",
    "fc.count",
    "fc.bias",
    "norms.before_fc",
    "wiring.norm_before_residual",
    "wiring.feedback",
    "wiring.double_norm",
    "wiring.later_layer_norm",
    "wiring.final_norm",
    "vocab.present",
    "vocab.map",
    "vocab.draft_size",
    "embedding.used",
    "lm_head.used",
    "rope.theta",
    "rope.type",
    "rope.table_length",
    "window",
    "layers",
    "architecture",
)
"""Fields that every reading has, known or not."""


class Outcome(StrEnum):
    """How far the engine gets with this drafter."""

    OK = "ok"
    ERROR_AT_LOAD = "error_at_load"
    ERROR_AT_FIRST_REQUEST = "error_at_first_request"


@dataclass(frozen=True, slots=True)
class Field:
    """One value the engine will use.

    Attributes:
        field: its name (``hidden_states.boundaries``).
        value: the value; None if not known.
        known: False: what was given, or public sources, do not settle it; ``rule`` says which.
        origin: where it came from.
        key: the key (config, flag or target) it was read from.
        looked_for: the keys the engine tried before and at that one, in its order.
        rule: what the engine does, in words, where a key does not say it all.
        source: engine version's file:line.
    """

    field: str
    value: Json
    known: bool
    origin: Origin
    key: str | None
    looked_for: tuple[str, ...]
    rule: str
    source: str


@dataclass(frozen=True, slots=True)
class TensorFate:
    """What becomes of one tensor: ``name`` as in the file, or as the file would name a parameter it lacks."""

    name: str
    fate: Fate
    file: str | None = None
    parameter: str | None = None
    shape: tuple[int, ...] | None = None
    expected: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """What one engine, at a version and with a runner, makes of a drafter."""

    engine: str
    runner: str | None
    version: str
    target: str | None
    outcome: Outcome
    error: str | None
    error_source: str | None = None
    fields: tuple[Field, ...] = ()
    tensors: tuple[TensorFate, ...] = ()
    ignored_keys: tuple[str, ...] = ()
    asked: Mapping[str, Json] = field(default_factory=dict)
    effective: tuple[Field, ...] = ()

    @property
    def reader(self) -> str:
        """``vllm[v2]==0.32.0``."""
        return f"{self.engine}{f'[{self.runner}]' if self.runner else ''}=={self.version}"

    def get(self, name: str) -> Field:
        """The field of this name.

        Raises:
            KeyError: the profile has no such field.
        """
        found = next((f for f in (*self.fields, *self.effective) if f.field == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def value(self, name: str) -> Any:
        """The value of a field; None if the field is not known or not there."""
        return next((f.value for f in (*self.fields, *self.effective) if f.field == name), None)

    def fates(self) -> dict[str, Fate]:
        """What becomes of each tensor, by its name; the fate that counts if several files hold it."""
        found: dict[str, Fate] = {}
        for tensor in self.tensors:
            if found.setdefault(tensor.name, tensor.fate) is Fate.SHADOWED:
                found[tensor.name] = tensor.fate
        return found

    def fate(self, name: str) -> Fate | None:
        """What becomes of one tensor. For many, ask ``fates`` once."""
        return self.fates().get(name)


def field_json(item: Field) -> dict[str, Json]:
    """One field as JSON."""
    return {
        "field": item.field,
        "value": item.value,
        "known": item.known,
        "origin": item.origin.value,
        "key": item.key,
        "looked_for": list(item.looked_for),
        "rule": item.rule,
        "source": item.source,
    }


def as_json(reading: EngineReading) -> dict[str, Json]:
    """The reading as ``contract read --format json`` writes it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": reading.engine,
        "runner": reading.runner,
        "version": reading.version,
        "target": reading.target,
        "outcome": reading.outcome.value,
        "error": reading.error,
        "error_source": reading.error_source,
        "fields": [field_json(f) for f in reading.fields],
        "tensors": [
            {
                "name": t.name,
                "fate": t.fate.value,
                "file": t.file,
                "parameter": t.parameter,
                "shape": None if t.shape is None else list(t.shape),
                "expected": None if t.expected is None else list(t.expected),
            }
            for t in reading.tensors
        ],
        "ignored_keys": list(reading.ignored_keys),
        "serve": {
            "asked": dict(reading.asked),
            "effective": {f.field.removeprefix("serve."): f.value for f in reading.effective},
            "fields": [field_json(f) for f in reading.effective],
        },
    }
