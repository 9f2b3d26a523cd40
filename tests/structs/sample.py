"""A Struct with every shape that a contract uses."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from contract.statement import Stated

Count = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many.")]


class Mode(StrEnum):
    PRE = "pre_norm"
    POST = "post_norm"


class Rope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rotary embedding."""

    theta: Annotated[float, msgspec.Meta(gt=0)]
    type: str = "default"

    def __post_init__(self) -> None:
        if self.type == "none":
            raise ValueError("type none has no theta")


class Sample(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A document."""

    layers: Stated[Count]
    window: Stated[int | None]
    boundaries: Stated[Annotated[list[int | Literal["final_norm"]], msgspec.Meta(min_length=1)]]
    mode: Mode
    bias: bool
    digest: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{4}$")] | UnsetType = UNSET
    rope: Annotated[Rope | None, msgspec.Meta(description="The drafter's own.")] = None
    other: Annotated[Rope, msgspec.Meta(description="Another one.")] | UnsetType = UNSET
    tensors: dict[str, Annotated[list[int], msgspec.Meta(max_length=2)]] = {}
    pair: tuple[int, str] | UnsetType = UNSET


VALID = {
    "layers": 61,
    "window": None,
    "boundaries": [0, 3, "final_norm"],
    "mode": "pre_norm",
    "bias": False,
    "rope": {"theta": 10000, "type": "default"},
    "tensors": {"fc.weight": [2, 3]},
    "pair": [1, "x"],
    "digest": "sha256:00ff",
}
