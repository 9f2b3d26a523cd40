"""From spools to a bundle: request by request, one in memory at a time, every row in its place.

Several spools make one bundle where an engine was started several times with other flags (prefix cache, small chunks). No torch, unless
ranks of a parallel engine have to be joined.

Legend: c tokens before the first row, T rows, R rounds, D drafts and E tokens of the longest round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from contract.errors import InputRejected
from contract.files.bundle_manifest import (
    ID_LENGTH,
    INPUT_IDS,
    POSITION_IDS,
    PREFIX_IDS,
    SEEN_BY_HOOKS,
    CountInfo,
    EngineInfo,
    ForwardInfo,
    ModelInfo,
)
from contract.files.bundle_writer import BundleWriter, Entry
from contract.files.names import shown
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.engines.committed import Committed, committed
from eagle3_contract.engines.rows_joined import joined_rows
from eagle3_contract.engines.spool_events import BOUNDARY, SLOT, Drafter, Round, Start
from eagle3_contract.engines.spool_read import RequestEvents, Spool, spool_error
from eagle3_contract.model.states import Recipe

KIND: Final = "eagle3"
WARM: Final = "warm"
"""The run that only fills an engine's prefix cache; its requests are counted and not kept."""
PAD: Final = -1
NO_PARENT: Final = -2
BUILD: Final = "build"
"""The flag that holds an engine's version with its local part (``0.32.0+cpu``); readings know releases only."""
ADDED: Final = ("rounds", "forwards", "requests", "drafted_tokens", "accepted_tokens", "output_tokens")
"""Counters that add up over several starts of an engine. Others are kept apart, with the names of the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How much of a recording is kept. Both are bounded by ``Limits.capture_requests`` and ``capture_rows``.

    Attributes:
        requests: requests, in the order in which they were recorded.
        rows: rows of each request; what comes after them is left out, rounds of drafting with it.
        unfinished: leave out requests without an output, and take a recording without an end: what a server leaves behind.
    """

    requests: int | None = None
    rows: int | None = None
    unfinished: bool = False


def assemble(
    spools: Sequence[Spool],
    out: str | Path,
    *,
    recipe: Recipe,
    target: ModelInfo,
    drafter: ModelInfo | None,
    flags: Mapping[str, str] | None = None,
    width: int | None = None,
    sampling: Sampling | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Write a bundle.

    Args:
        spools: of one engine, each from a start of its own; the first one's flags are the bundle's.
        out: the bundle, a free name or an empty folder.
        recipe: what the engine's reading says that it feeds, one state for each slot.
        target, drafter: what they are.
        flags: more of them for the manifest.
        width: of the target's states; joining the ranks of a parallel engine needs it.
        sampling: how much is kept; everything if None.
        limits: the bounds.

    Raises:
        InputRejected: the spools contradict themselves or each other (rules ``engine.spool-*``, ``engine.recipe-unknown``), nothing is
            left to write, or the place is unusable.
        LimitExceeded: ``capture_bytes``.
    """
    chosen = sampling or Sampling()
    for spool in spools:
        _whole(spool, chosen)
    engine = _engine(spools, flags or {})
    most = min(chosen.requests or limits.capture_requests, limits.capture_requests)
    rows = min(chosen.rows or limits.capture_rows, limits.capture_rows)
    with BundleWriter(
        out,
        kind=KIND,
        engine=engine,
        target=target,
        drafter=drafter,
        recipe_fed=recipe,
        layers=spools[0].start.layers,
        limits=limits,
    ) as bundle:
        ids: Counter[str] = Counter()
        kept = 0
        for spool in spools:
            for request in spool.requests.values():
                if request.start.run == WARM or (request.output is None and chosen.unfinished) or kept >= most:
                    continue
                _add(bundle, _id(request, ids), request, spool.start, recipe, rows, width, limits)
                kept += 1
        if not kept:
            raise spool_error("spool-tokens", f"no request of {sum(len(s.requests) for s in spools)} was finished")
        bundle.counters.update(_counters(spools))
        bundle.counts.update(_counts(spools, bundle.counters, kept))
    return Path(out)


def _whole(spool: Spool, chosen: Sampling) -> None:
    if chosen.unfinished:
        return
    if spool.full is not None:
        raise spool_error("spool-full", f"the recording stopped at {spool.full} bytes")
    if spool.counters is None:
        raise spool_error("spool-end", f"the spool {spool.folder.name} has no end: the engine broke off")
    open_ = [r for r in spool.requests.values() if r.output is None]
    if open_:
        raise spool_error("spool-tokens", f"request {shown(open_[0].start.request)} has no output")


def _engine(spools: Sequence[Spool], more: Mapping[str, str]) -> EngineInfo:
    first = spools[0].start
    flags = {**first.flags, **more}
    for spool in spools[1:]:
        start = spool.start
        for field in ("engine", "version", "runner", "mode", "tp", "pp", "device", "dtype", "layer_ids", "layers"):
            if getattr(start, field) != getattr(first, field):
                said = f"{field} {getattr(first, field)!r} and {getattr(start, field)!r}"
                raise spool_error("spool-order", f"the engine was started with {said}: two captures, not one")
        label = _runs(spool)
        flags |= {f"{label}: {k}": v for k, v in start.flags.items() if first.flags.get(k) != v}
    plain, local, _ = first.version.partition("+")
    if local:
        flags[BUILD] = first.version
    return EngineInfo(
        name=first.engine,
        version=plain,
        runner=first.runner,
        mode=first.mode,
        flags=flags,
        device=first.device,
        dtype=first.dtype,
        tp=first.tp,
        pp=first.pp,
        layer_ids=first.layer_ids,
    )


def _runs(spool: Spool) -> str:
    return ", ".join(dict.fromkeys(r.start.run or "plain" for r in spool.requests.values() if r.start.run != WARM)) or WARM


def _counters(spools: Sequence[Spool]) -> dict[str, float]:
    if len(spools) == 1:
        return dict(spools[0].counters or {})
    made: dict[str, float] = {}
    for spool in spools:
        for name, value in (spool.counters or {}).items():
            key = name if name in ADDED else f"{_runs(spool)}: {name}"
            made[key] = made.get(key, 0.0) + value
    return made


def _counts(spools: Sequence[Spool], counters: Mapping[str, float], kept: int) -> dict[str, CountInfo]:
    """Rounds and forwards count all that the hooks saw, whether or not its request was kept; requests those that are in the bundle."""
    seen = {"rounds": sum(s.count(Round) for s in spools), "forwards": sum(s.count(Drafter) for s in spools), "requests": kept}
    found = {}
    for name, recorded in seen.items():
        counted = counters.get(name)
        by = None if counted is None else name
        if name == "requests" and counted is None:
            seen_by_hooks = [r for s in spools for r in s.requests.values() if r.start.run != WARM]
            counted, by = float(len(seen_by_hooks)), SEEN_BY_HOOKS
        found[name] = CountInfo(recorded=recorded, counted=None if counted is None else int(counted), by=by)
    return found


def _id(request: RequestEvents, used: Counter[str]) -> str:
    """The prompt's id, with the run where it is not the plain one; a prompt that came again gets a number."""
    start = request.start
    name = f"{start.prompt_id}@{start.run}" if start.run else start.prompt_id
    used[name] += 1
    return (name if used[name] == 1 else f"{name}#{used[name]}")[-ID_LENGTH:]


def _add(
    bundle: BundleWriter, id_: str, request: RequestEvents, start: Start, recipe: Recipe, max_rows: int, width: int | None, limits: Limits
) -> None:
    made = committed(request, max_rows=max_rows)
    tensors: dict[str, Entry] = {
        INPUT_IDS: _vector(made.tokens[made.first : made.end]),
        POSITION_IDS: _vector(range(made.first, made.end)),
    }
    if made.first:
        tensors[PREFIX_IDS] = _vector(made.tokens[: made.first])
    names = _state_names(request, made, recipe)
    tensors |= joined_rows(request, made, names, ranks=start.tp, width=width)
    tensors |= _rounds(made)
    forwards = []
    for k, (item, rounds) in enumerate(made.forwards):
        event = item.event
        assert isinstance(event, Drafter)
        refs = item.tensors()
        forwards.append(ForwardInfo(phase=event.phase, round=rounds, step=event.step, rows=refs[INPUT_IDS].shape[0]))
        tensors |= {f"forward.{k}.{name}": (ref.dtype, ref.shape, ref.read_bytes()) for name, ref in sorted(refs.items())}
        held = sum(memoryview(data).nbytes for _, _, data in tensors.values())
        limits.enforce("capture_bytes", held, what=f"request {shown(id_)}")
    bundle.add(
        id_, tensors, sample=request.start.sample, prompt_tokens=min(made.prompt, made.end), run=request.start.run, forwards=forwards
    )


def _state_names(request: RequestEvents, made: Committed, recipe: Recipe) -> list[str]:
    """Slots, and the states that every row has beside them."""
    sets = [set(p.event.tensors()) for p in made.pieces]
    if not sets:
        raise spool_error("spool-row", f"request {shown(request.start.request)}: the target ran none of its tokens")
    slots = [n for n in sets[0] if SLOT.fullmatch(n)]
    if len(slots) != len(recipe):
        raise _unlike(f"request {shown(request.start.request)}: the engine fed {len(slots)} states, its reading says {list(recipe)}")
    for names in sets[1:]:
        if {n for n in names if SLOT.fullmatch(n)} != set(slots):
            raise spool_error("spool-read", f"request {shown(request.start.request)}: the number of slots changes between forwards")
    others = set.intersection(*sets) - set(slots) - {INPUT_IDS, POSITION_IDS}
    return [*sorted(slots, key=_number), *sorted(others, key=_number)]


def _number(name: str) -> int:
    match = SLOT.fullmatch(name) or BOUNDARY.fullmatch(name)
    return int(match[1]) if match else 1 << 30


def _unlike(message: str) -> InputRejected:
    return spool_error("recipe-unknown", message)


def _vector(values: Iterable[int]) -> Entry:
    array = np.fromiter(values, dtype="<i8")
    return "I64", array.shape, array.tobytes()


def _matrix(rows: Sequence[Sequence[int]], pad: int) -> Entry:
    width = max(map(len, rows), default=0)
    array = np.array([[*row, *[pad] * (width - len(row))] for row in rows], dtype="<i8").reshape(len(rows), width)
    return "I64", array.shape, array.tobytes()


def _rounds(made: Committed) -> dict[str, Entry]:
    if not made.rounds:
        return {}
    found = {
        "round.proposed": _matrix([proposed for proposed, _, _ in made.rounds], PAD),
        "round.emitted": _matrix([emitted for _, emitted, _ in made.rounds], PAD),
    }
    if any(parents is not None for _, _, parents in made.rounds):
        chains = [list(range(-1, len(p) - 1)) if parents is None else parents for p, _, parents in made.rounds]
        found["round.parents"] = _matrix(chains, NO_PARENT)
    return found
