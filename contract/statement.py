"""What a contract states about one thing: a value, a value with its evidence, or ``unknown`` with the reason.

How a contract struct uses it::

    from contract.statement import Stated, fact

    class Target(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
        layers: Stated[Annotated[int, msgspec.Meta(ge=1)]]
        window: Stated[int | None]                # null is a value here: full attention
        boundaries: Stated[list[int | Literal["final_norm"]]]

    fact(spec.target.layers)      # Fact(known=True, value=61, reason=None, evidence=None, note=None)

In YAML each of these is then one of::

    layers: 61
    layers: {value: 61, evidence: config, note: num_hidden_layers of revision 1a2b3c}
    layers: {unknown: the model card does not say, note: asked the authors}

``T`` may be a scalar, a Literal, a list, or a union of these with None. It may not be a Struct or a dict: a mapping in the file is
always read as the statement (msgspec allows one mapping-like member in a union). For a struct, state its fields one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, Union

import msgspec
from msgspec import UNSET, UnsetType

T = TypeVar("T")

Evidence: TypeAlias = Literal["config", "code_rule", "measured", "declared", "assumed"]
"""How a value is known: read from a configuration, implied by the trainer's code, measured on tensors, declared by a person, or
assumed."""


class Statement(msgspec.Struct, Generic[T], kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A value with its evidence, or `unknown` with the reason. Exactly one of `value` and `unknown` is given."""

    json_schema_extra: ClassVar[dict[str, Any]] = {"oneOf": [{"required": ["value"]}, {"required": ["unknown"]}]}
    """What the JSON Schema cannot learn from the fields (see ``contract.structs.json_schema``)."""

    value: T | UnsetType = UNSET
    unknown: Annotated[str, msgspec.Meta(min_length=1, description="Why the value is not known.")] | UnsetType = UNSET
    evidence: Annotated[Evidence, msgspec.Meta(description="How the value is known.")] | UnsetType = UNSET
    note: Annotated[str, msgspec.Meta(min_length=1, description="Where exactly, or what a reader should know.")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.value is UNSET) == (self.unknown is UNSET):
            raise ValueError("a statement has exactly one of the keys `value` and `unknown`")


Stated: TypeAlias = Union[T, Statement[T]]  # noqa: UP007 -- an alias with a free TypeVar: `T | Statement[T]` cannot be subscripted
"""The type of a contract field: the bare value, or a ``Statement`` of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A resolved statement. ``value`` means something only if ``known``; ``reason`` says why it is not known."""

    known: bool
    value: Any = None
    reason: str | None = None
    evidence: Evidence | None = None
    note: str | None = None


def fact(stated: Any) -> Fact:
    """Resolve a ``Stated[T]``: the bare value and ``{value: ...}`` become one shape."""
    if not isinstance(stated, Statement):
        return Fact(known=True, value=stated)
    note = None if stated.note is UNSET else stated.note
    evidence = None if stated.evidence is UNSET else stated.evidence
    if isinstance(stated.unknown, str):
        return Fact(known=False, reason=stated.unknown, evidence=evidence, note=note)
    return Fact(known=True, value=stated.value, evidence=evidence, note=note)
