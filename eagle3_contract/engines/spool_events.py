"""The events of a spool as typed values: what ``spool`` lists, read strictly. No torch.

Legend: n rows of a forward, P tokens of the prompt, D proposed tokens, E emitted tokens, O output tokens, G target width.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from contract.files.bundle_manifest import FINAL_NORM, FORWARD_TENSORS, INPUT_IDS, POSITION_IDS
from contract.files.names import shown

FLOATS: Final = ("BF16", "F16", "F32", "F64")
SLOT: Final = re.compile(r"slot\.(0|[1-9][0-9]{0,2})")
BOUNDARY: Final = re.compile(r"boundary\.(0|[1-9][0-9]{0,5})")
PROPOSED: Final = "proposed"
EMITTED: Final = "emitted"
PARENTS: Final = "parents"
OUTPUT_IDS: Final = "output_ids"
VECTORS: Final = frozenset(FORWARD_TENSORS[:4])
"""Tensors of a drafter's forward that are integers [n]; ``logit_rows`` has a length of its own."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31)]
Size: TypeAlias = Annotated[int, Meta(ge=1, le=2**31)]
Counter: TypeAlias = Annotated[float, Meta(ge=0, le=2**53)]
LayerId: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31)]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
Word: TypeAlias = Annotated[str, Meta(max_length=64)]


class _Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """All keys are written, all keys are read."""


class Start(_Event, frozen=True, tag="start"):
    """The engine is loaded. ``layer_ids`` are those that it had set, in its own numbering."""

    engine: Text
    version: Text
    runner: Text | None
    mode: Literal["eager", "graph"]
    tp: Size
    pp: Size
    device: Text
    dtype: Text
    layer_ids: list[LayerId] | None
    layers: Size
    target_class: str | None
    drafter_class: str | None
    flags: dict[str, str]


class Prompt(_Event, frozen=True, tag="prompt"):
    """A request begins. Tensor ``input_ids`` [P]."""

    request: Text
    prompt_id: Text
    sample: str | None
    run: Word


class Target(_Event, frozen=True, tag="target"):
    """The target ran n rows of a request; one event for each rank where there are several."""

    request: Text
    phase: Literal["prefill", "verify", "decode"]
    rank: Count | None = None


class Drafter(_Event, frozen=True, tag="drafter"):
    """The drafter ran n rows of a request."""

    request: Text
    phase: Literal["prefill", "extend", "draft"]
    step: Count
    rank: Count | None = None


class Round(_Event, frozen=True, tag="round"):
    """The target verified the drafts of a round. Tensors ``proposed`` [D], ``emitted`` [E], for trees ``parents`` [D]."""

    request: Text


class Output(_Event, frozen=True, tag="output"):
    """A request is finished. Tensor ``output_ids`` [O]."""

    request: Text


class End(_Event, frozen=True, tag="end"):
    """The recording is over; what the engine counted."""

    counters: dict[str, Counter]


class Full(_Event, frozen=True, tag="full"):
    """The limit was reached; nothing was recorded from here on."""

    limit_bytes: Count


Event: TypeAlias = Start | Prompt | Target | Drafter | Round | Output | End | Full
EVENTS: Final = (Start, Prompt, Target, Drafter, Round, Output, End, Full)
_VECTORS_OF: Final[Mapping[type, Mapping[str, bool]]] = {
    Prompt: {INPUT_IDS: True},
    Target: {INPUT_IDS: True, POSITION_IDS: True},
    Drafter: {INPUT_IDS: True, POSITION_IDS: False, PARENTS: False, "logit_rows": False},
    Round: {PROPOSED: True, EMITTED: True, PARENTS: False},
    Output: {OUTPUT_IDS: True},
}
"""The integer vectors of a kind of event, and whether one has to be there."""


def typed(tree: object) -> Event:
    """The event from its decoded JSON.

    Raises:
        ValueError: it is none; the message says what is wrong, with the nearest name of an unknown key.
    """
    try:
        event: Event = msgspec.convert(tree, Event, strict=True)
    except msgspec.ValidationError as error:
        unknown = re.search(r"unknown field `([^`]*)`", str(error))
        near = difflib.get_close_matches(unknown[1], sorted({f for e in EVENTS for f in e.__struct_fields__}), n=1) if unknown else []
        raise ValueError(shown(str(error), 300) + (f"; did you mean {near[0]}?" if near else "")) from None
    return event


def tensor_fault(event: Event, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> str | None:
    """What is wrong with the tensors (name to dtype and shape) of an event, or None."""
    vectors = _VECTORS_OF.get(type(event), {})
    for name in sorted(n for n, needed in vectors.items() if needed):
        if name not in tensors:
            return f"has no {name}"
    rows = tensors[INPUT_IDS][1][0] if INPUT_IDS in tensors and len(tensors[INPUT_IDS][1]) == 1 else 0
    for name, (dtype, shape) in tensors.items():
        if name in vectors:
            if dtype != "I64" or len(shape) != 1:
                return f"{name} is {dtype} {list(shape)}, not I64 [n]"
            if isinstance(event, Target | Drafter) and name != "logit_rows" and shape[0] != rows:
                return f"{name} has {shape[0]} rows, input_ids {rows}"
        elif (fault := _float_fault(event, name, dtype, shape, rows)) is not None:
            return f"{shown(name)} {fault}"
    if rows < 1 and isinstance(event, Prompt | Target | Drafter):
        return "has no rows"
    if isinstance(event, Round) and PARENTS in tensors and tensors[PARENTS][1] != tensors[PROPOSED][1]:
        return "has another number of parents than of proposed tokens"
    return _slot_fault(tensors) if isinstance(event, Target) else None


def _float_fault(event: Event, name: str, dtype: str, shape: tuple[int, ...], rows: int) -> str | None:
    state = isinstance(event, Target) and (SLOT.fullmatch(name) or BOUNDARY.fullmatch(name) or name == FINAL_NORM)
    forward = isinstance(event, Drafter) and name in FORWARD_TENSORS
    if not state and not forward:
        return f"is no tensor of an event {type(event).__name__.lower()}"
    if dtype not in FLOATS or len(shape) != 2 or shape[1] < 1 or (name != "logits" and shape[0] != rows):
        return f"is {dtype} {list(shape)}, not a float type [{rows}, width]"
    return None


def _slot_fault(tensors: Mapping[str, object]) -> str | None:
    slots = sorted(int(m[1]) for name in tensors if (m := SLOT.fullmatch(name)))
    return None if slots == list(range(len(slots))) and slots else f"has the slots {slots}"
