"""The policy file, version 1. A key that is left out restricts nothing; no key can loosen anything."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from contract.waivers.model import RulePattern

Ceiling = Annotated[float, Meta(gt=0)]


class WaiverPolicy(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What waivers may do."""

    forbidden: Annotated[
        list[RulePattern], Meta(max_length=1000, description="Rules, or whole areas (`reading.*`), that no waiver may cover.")
    ] = []
    max_days: Annotated[int, Meta(ge=0, le=3650, description="How many days from today a waiver may run at most.")] | None = None


class PolicyFile(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Bounds for every contract that is verified under this policy."""

    schema_version: Literal[1]
    tolerances: Annotated[
        dict[str, Ceiling], Meta(description="Largest value of each of the contract's `tolerances`; it also caps the built-in bound.")
    ] = {}
    integrity: Annotated[Literal["headers", "values", "digests"], Meta(description="How much of the weights is read at least.")] | None = (
        None
    )
    waivers: WaiverPolicy = WaiverPolicy()
    limits: Annotated[dict[str, int], Meta(description="Limits on what is read (contract/limits.py), lowered.")] = {}
