"""The waivers file, version 1. The loader, specs/waivers.schema.json and the documentation come from these classes."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct

from contract.limits import DEFAULT_LIMITS
from contract.waivers.versions import parse_range

RULE_PATTERN: Final = r"^[a-z0-9]+(-[a-z0-9]+)*\.([a-z0-9]+(-[a-z0-9]+)*|\*)$"
"""A rule id, or a whole area (``reading.*``). No regular expression: what a waiver covers must be seen by reading it."""
ANY: Final = "any"

RulePattern = Annotated[
    str,
    Meta(
        pattern=RULE_PATTERN,
        max_length=DEFAULT_LIMITS.regex_length,
        description="A rule id, or every rule of an area: `reading.*`.",
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]


class Scope(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where a waiver holds. The optional keys narrow it further; each must be equal to the place of the failure."""

    engine: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z][A-Za-z0-9._-]*(\[[A-Za-z0-9_-]+\])?$",
            max_length=100,
            description="An engine, perhaps with its runner (`sglang`, `vllm[v1]`), or `any`: also failures that no engine is part of.",
        ),
    ]
    versions: Annotated[
        str, Meta(min_length=1, max_length=100, description="Versions of the engine: `==0.5.23`, `>=0.30,<0.33`, or `any`.")
    ]
    slot: Annotated[int, Meta(ge=0, le=10_000, description="Only this slot of the recipe.")] | None = None
    tensor: Annotated[Name, Meta(description="Only this tensor.")] | None = None
    file: Annotated[Name, Meta(description="Only this file, as the report names it.")] | None = None
    key: Annotated[Name, Meta(description="Only this key, as the report names it.")] | None = None

    def __post_init__(self) -> None:
        parse_range(self.versions)
        if self.engine == ANY and self.versions != ANY:
            raise ValueError("versions belong to an engine: name it, or write `versions: any`")


class Waiver(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One accepted failure."""

    json_schema_extra: ClassVar[dict[str, Any]] = {"description": "One accepted failure."}

    rule: RulePattern
    scope: Scope
    reason: Annotated[str, Meta(min_length=10, max_length=2000, description="Why the failure is acceptable, and who decided it.")]
    expires: Annotated[
        str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="The last day (UTC) on which the waiver holds, such as 2027-03-31.")
    ]
    measured: (
        Annotated[
            str,
            Meta(
                min_length=10,
                max_length=2000,
                description="What was measured that shows the failure to be harmless. Required for rules of the dimensions recipe, wiring, "
                "vocab, rope, alignment and weights: their failures crash nothing and cost acceptance only.",
            ),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        try:
            date.fromisoformat(self.expires)
        except ValueError as error:
            raise ValueError(f"expires: {self.expires} is no date") from error

    @property
    def last_day(self) -> date:
        """The last day on which the waiver holds."""
        return date.fromisoformat(self.expires)


class WaiverFile(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Waivers of one contract."""

    schema_version: Literal[1]
    waivers: Annotated[list[Waiver], Meta(max_length=1000)]
