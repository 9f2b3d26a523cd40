"""Tells what a stored ``d2t`` means by its values: an offset, absolute ids, no map at all, or nothing usable.

Every engine adds: target = i + d2t[i] (vLLM 0.32.0 llama_eagle3.py:385-386, SGLang 0.5.23 llama_eagle3.py:350-353), and none
checks the range, so a map of absolute ids is served as silently wrong tokens. A run of zeros at the start of an offset map is right
(the lowest token ids are all kept), and so is an unsorted or partly negative one (ModelOpt 0.47.0 speculative/utils.py:62-76 writes
the map in order of frequency).

Sizes: DV draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eagle3_contract.model.vocab import VocabMap

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

NEIGHBOURS_EXPECTED: Final = 20.0
"""How many neighbouring ids chance alone must be expected to put into the draft vocabulary before their complete absence speaks
against the offset reading (e**-20 under a random choice; a choice by frequency has more of them)."""


class MapKind(StrEnum):
    """What the values are. The first three are the values of :class:`VocabMap`."""

    OFFSET = "offset"
    ABSOLUTE = "absolute"
    IDENTITY = "identity"
    INVALID = "invalid"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapVerdict:
    """What :func:`classify_map` found.

    Attributes:
        kind: what the values are.
        reasons: why, as sentences; for ``invalid`` everything that is wrong under each reading.
        targets: [DV] the target ids under ``kind``; None when the map is invalid or ambiguous.
        notes: what is right but worth saying (unsorted, negative offsets, leading zeros).
        t2d_problems: how ``t2d`` is malformed or contradicts the map; empty when it agrees or was not given.
    """

    kind: MapKind
    reasons: tuple[str, ...]
    targets: Ints | None = None
    notes: tuple[str, ...] = ()
    t2d_problems: tuple[str, ...] = ()

    @property
    def map(self) -> VocabMap | None:
        """The kind as the contract states it; None when there is none."""
        return None if self.kind in (MapKind.INVALID, MapKind.AMBIGUOUS) else VocabMap(self.kind.value)


def classify_map(values: Any, draft_size: int, target_size: int, t2d: Any = None) -> MapVerdict:
    """Tell what ``values`` mean by range, uniqueness, order and agreement with ``t2d``; never raises on their content.

    Args:
        values: [DV] a stored ``d2t``: numpy array, or a sequence of ints.
        draft_size: DV, the rows of the drafter's head.
        target_size: V, the number of target ids that exist (padding rows excluded where that is known).
        t2d: [V] bool mask over target ids, where one is stored (it may be as long as the padded vocabulary).
    """
    stored = np.asarray(values)
    malformed = _malformed(stored, draft_size, target_size)
    if malformed:
        return MapVerdict(kind=MapKind.INVALID, reasons=tuple(malformed))
    v = stored.astype(np.int64)
    index = np.arange(draft_size, dtype=np.int64)
    mask, mask_problems = _mask(t2d, draft_size, target_size)

    if not v.any():
        reason = f"all {draft_size} entries are 0: draft ids are target ids"
        short = f"only the first {draft_size} of {target_size} target ids can be drafted; vLLM makes the same of a missing d2t"
        notes = () if draft_size == target_size else (short,)
        return MapVerdict(
            kind=MapKind.IDENTITY,
            reasons=(reason,),
            targets=index,
            notes=notes,
            t2d_problems=(*mask_problems, *_disagreement(index, mask)),
        )

    wrong = {MapKind.OFFSET: _wrong_as_offset(v, index, target_size), MapKind.ABSOLUTE: _wrong_as_absolute(v, target_size)}
    targets = {MapKind.OFFSET: None if wrong[MapKind.OFFSET] else index + v, MapKind.ABSOLUTE: v}
    possible = [kind for kind, problems in wrong.items() if not problems]
    if draft_size == 1 and len(possible) == 2:
        return _verdict(MapKind.OFFSET, ["one entry, which both readings take for the same id"], v, v, mask, mask_problems)
    if not possible:
        return MapVerdict(
            kind=MapKind.INVALID,
            t2d_problems=tuple(mask_problems),
            reasons=tuple(f"as {kind.value}: {p}" for kind, problems in wrong.items() for p in problems),
        )
    if len(possible) == 1:
        kind = possible[0]
        other = MapKind.ABSOLUTE if kind is MapKind.OFFSET else MapKind.OFFSET
        reasons = [f"every target id as {kind.value} is in range and unique", *(f"as {other.value}: {p}" for p in wrong[other])]
        return _verdict(kind, reasons, targets[kind], v, mask, mask_problems)

    agreeing = [kind for kind in possible if mask is not None and not _disagreement(targets[kind], mask)]
    if len(agreeing) == 1:
        reason = f"both readings are in range and unique; only {agreeing[0].value} selects exactly the tokens of t2d"
        return _verdict(agreeing[0], [reason], targets[agreeing[0]], v, mask, mask_problems)
    lonely = _no_neighbours(index + v, v, target_size)
    if mask is None and lonely:
        return _verdict(MapKind.ABSOLUTE, [lonely], v, v, mask, mask_problems)
    undecided = "no t2d decides" if mask is None else "t2d selects the tokens of neither reading"
    problems = () if mask is None else ("t2d selects other tokens than d2t under either reading",)
    return MapVerdict(
        kind=MapKind.AMBIGUOUS,
        reasons=("in range and unique both as offset and as absolute ids", undecided),
        t2d_problems=(*mask_problems, *problems),
    )


def _malformed(stored: NDArray[Any], draft_size: int, target_size: int) -> list[str]:
    """What makes the array unusable before its values are looked at."""
    problems = []
    if stored.dtype not in (np.dtype(np.int64), np.dtype(np.int32)):
        problems.append(f"dtype {stored.dtype}: a map holds whole numbers, written as int64 by every trainer")
    if stored.ndim != 1:
        problems.append(f"shape {list(stored.shape)}: a map has one dimension")
    elif len(stored) != draft_size:
        problems.append(f"{len(stored)} entries for a draft vocabulary of {draft_size}")
    if draft_size < 1 or target_size < 1:
        problems.append(f"an empty vocabulary (draft {draft_size}, target {target_size})")
    elif draft_size > target_size:
        problems.append(f"draft vocabulary {draft_size} is larger than the target's {target_size}")
    return problems


def _wrong_as_offset(v: Ints, index: Ints, target_size: int) -> list[str]:
    """What is wrong with ``v`` as offsets. Compared without adding first, so that entries near 2**63 cannot wrap."""
    low, high = v < -index, v >= target_size - index
    problems = []
    if low.any():
        text = f"{int(low.sum())} target ids are negative (first at {_first(low)}: {_first(low)} + {int(v[_first(low)])})"
        in_wrap = bool((v[low] >= -target_size - index[low]).all())
        problems.append(text + ("; vLLM 0.32.0 wraps them round to id + vocabulary, SGLang does not" if in_wrap else ""))
    if high.any():
        at = _first(high)
        first = f"first at {at}: {at} + {int(v[at])} >= {target_size}"
        problems.append(f"{int(high.sum())} target ids are outside the vocabulary ({first})")
    return problems or _duplicates(index + v)


def _wrong_as_absolute(v: Ints, target_size: int) -> list[str]:
    low, high = v < 0, v >= target_size
    problems = []
    if low.any():
        problems.append(f"{int(low.sum())} ids are negative (first at {_first(low)}: {int(v[_first(low)])})")
    if high.any():
        at = _first(high)
        problems.append(f"{int(high.sum())} ids are outside the vocabulary (first at {at}: {int(v[at])} >= {target_size})")
    return problems + _duplicates(v)


def _duplicates(ids: Ints) -> list[str]:
    order = np.argsort(ids, kind="stable")
    same = np.nonzero(np.diff(ids[order]) == 0)[0]
    if not len(same):
        return []
    first, second = int(order[same[0]]), int(order[same[0] + 1])
    return [f"{len(same)} target ids occur twice (first: draft ids {first} and {second} both mean {int(ids[first])})"]


def _no_neighbours(as_offset: Ints, as_absolute: Ints, target_size: int) -> str | None:
    """The reason for ``absolute`` where both readings hold: a draft vocabulary chosen from text always contains neighbouring ids.

    Sorted absolute ids, read as offsets, never do (i + v grows by two at least); that is how such a map looks like an offset.
    """
    expected = len(as_offset) ** 2 / target_size
    neighbours_offset = int((np.diff(np.sort(as_offset)) == 1).sum())
    neighbours_absolute = int((np.diff(np.sort(as_absolute)) == 1).sum())
    if expected < NEIGHBOURS_EXPECTED or neighbours_offset or not neighbours_absolute:
        return None
    return (
        f"as offset no two of the {len(as_offset)} target ids would be neighbours (about {expected:.0f} are due by chance), "
        f"as absolute ids {neighbours_absolute} are"
    )


def _mask(t2d: Any, draft_size: int, target_size: int) -> tuple[Bools | None, list[str]]:
    """``t2d`` as a usable mask, and what is wrong with it. A malformed one decides nothing."""
    if t2d is None:
        return None, []
    mask = np.asarray(t2d)
    if mask.dtype != np.dtype(np.bool_) or mask.ndim != 1:
        return None, [f"t2d is {mask.dtype} of shape {list(mask.shape)}: it is a bool mask over the target vocabulary"]
    if len(mask) < target_size:
        return None, [f"t2d has {len(mask)} entries for a target vocabulary of {target_size}"]
    if (chosen := int(mask.sum())) != draft_size:
        return mask, [f"t2d selects {chosen} tokens for a draft vocabulary of {draft_size}"]
    return mask, []


def _disagreement(targets: Ints | None, mask: Bools | None) -> tuple[str, ...]:
    """How the mask contradicts in-range unique targets; empty if it selects exactly them, or if there is no mask."""
    if mask is None or targets is None:
        return ()
    chosen = np.zeros_like(mask)
    chosen[targets] = True
    missing, extra = chosen & ~mask, mask & ~chosen
    if not missing.any() and not extra.any():
        return ()
    parts = [
        f"{int(part.sum())} tokens are {text} (first: {_first(part)})"
        for part, text in ((missing, "in d2t and not in t2d"), (extra, "in t2d and not in d2t"))
        if part.any()
    ]
    return ("t2d contradicts d2t: " + ", ".join(parts),)


def _verdict(
    kind: MapKind, reasons: Sequence[str], targets: Ints | None, v: Ints, mask: Bools | None, mask_problems: Sequence[str]
) -> MapVerdict:
    notes = []
    if targets is not None and (np.diff(targets) < 0).any():
        notes.append("target ids are not in ascending order (ModelOpt writes them by frequency); t2d cannot rebuild this map")
    if kind is MapKind.OFFSET:
        if zeros := int(np.argmax(v != 0)):
            notes.append(f"the first {zeros} offsets are 0: the first {zeros} target ids are all in the draft vocabulary")
        if (v < 0).any():
            notes.append(f"{int((v < 0).sum())} offsets are negative, and every target id is in range")
    if kind is MapKind.ABSOLUTE and targets is not None and np.array_equal(targets, np.arange(len(targets))):
        notes.append("the absolute ids are 0, 1, 2, ...: the identity, which an engine would read as 0, 2, 4, ...")
    return MapVerdict(
        kind=kind,
        reasons=tuple(reasons),
        targets=targets,
        notes=tuple(notes),
        t2d_problems=(*mask_problems, *_disagreement(targets, mask)),
    )


def _first(mask: Bools) -> int:
    return int(np.argmax(mask))
