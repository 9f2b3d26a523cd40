"""Reading a spool: every event typed and checked, sorted by request. Tensors stay on disk until they are asked for. No torch.

Whatever writes into a spool may have crashed, or be hostile: names, JSON, tensors and sizes are all checked before anything is believed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from contract.errors import InputRejected
from contract.files.bundle_manifest import ID_LENGTH
from contract.files.names import shown, unsafe
from contract.files.paths import Folder, OpenedFile
from contract.files.safetensors_header import read_opened_header
from contract.files.tensors import Shard, TensorRef, TensorTable
from contract.findings import Where
from contract.jsonio import load_json
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.engines.rules import RULES
from eagle3_contract.engines.spool_events import End, Event, Full, Output, Prompt, Start, tensor_fault, typed

EVENT_KEY: Final = "event"
"""Key of the safetensors metadata (``spool.EVENT_KEY``, which cannot be imported here: it comes with torch)."""
_NAME: Final = re.compile(r"([0-9]{9,15})-([0-9]{1,10})\.safetensors")
_PART: Final = re.compile(r"[0-9]{9,15}-[0-9]{1,10}\.safetensors\.part")


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """An event and where its tensors are."""

    file: str
    writer: int
    event: Event
    folder: Path
    limits: Limits

    def tensors(self) -> Mapping[str, TensorRef]:
        """Its tensors on disk, by name. Raises InputRejected if the file changed since its event was read."""
        with Folder(self.folder) as folder, folder.open(self.file) as opened:
            event, table = _read(self.folder, opened, self.limits)
        if event != self.event:
            raise spool_error("spool-read", f"{self.file} changed while it was read", self.file)
        return table

    def integers(self, name: str) -> list[int]:
        """An integer vector. Raises KeyError if the event has none of that name."""
        return integers(self.tensors()[name])


@dataclass(slots=True, eq=False)
class RequestEvents:
    """What was recorded of one request. ``events`` are those of target, drafter and rounds, in their order."""

    prompt: Stored
    events: list[Stored] = field(default_factory=list)
    output: Stored | None = None

    @property
    def start(self) -> Prompt:
        """The prompt's facts."""
        assert isinstance(self.prompt.event, Prompt)
        return self.prompt.event


@dataclass(frozen=True, slots=True, eq=False)
class Spool:
    """A spool that passed every check. ``requests`` are in the order in which they were recorded."""

    folder: Path
    start: Start
    requests: Mapping[str, RequestEvents]
    counters: Mapping[str, float] | None
    full: int | None

    def count(self, kind: type) -> int:
        """How many events of a kind (Target, Drafter, Round) all requests have, those of the first rank where there are several."""
        return sum(isinstance(e.event, kind) and not getattr(e.event, "rank", None) for r in self.requests.values() for e in r.events)


def spool_error(rule: str, message: str, file: str | None = None) -> InputRejected:
    """The exception for a spool from which no bundle can be made; ``rule`` without its area."""
    return InputRejected(
        message, rule=f"engine.{rule}", fix=RULES[f"engine.{rule}"].remedy, where=None if file is None else Where(file=file)
    )


def integers(ref: TensorRef) -> list[int]:
    """The values of an I64 vector."""
    values: npt.NDArray[np.int64] = np.frombuffer(bytes(ref.read_bytes()), dtype="<i8")
    return [int(v) for v in values]


def open_spool(folder: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> Spool:
    """Read every event of a spool, without tensor data.

    Raises:
        InputRejected: rules ``engine.spool-read``, ``engine.spool-order`` or ``files.*``.
        LimitExceeded: ``spool_events`` or ``capture_bytes``.
    """
    stored, size = [], 0
    place = Path(folder)
    with Folder(folder) as opened_folder:
        names = _names(opened_folder, limits)
        for _, writer, name in names:
            with opened_folder.open(name) as opened:
                size += opened.size
                limits.enforce("capture_bytes", size, what=f"the spool {place.name}", where=Where(file=name))
                event, _ = _read(place, opened, limits)
            stored.append(Stored(name, writer, event, place, limits))
    return _sorted_out(place, stored)


def _names(folder: Folder, limits: Limits) -> list[tuple[int, int, str]]:
    """(number, writer, name) in order; a half-written event is none."""
    found = []
    for name in os.listdir(folder.fd):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.append((int(match[1]), int(match[2]), name))
            limits.enforce("spool_events", len(found), what=f"the spool {folder.path.name}", where=Where(file=shown(name)))
        elif _PART.fullmatch(name) is None:
            raise spool_error("spool-read", f"{shown(name)} is no event of a spool", shown(name))
    return sorted(found)


def _read(folder: Path, opened: OpenedFile, limits: Limits) -> tuple[Event, TensorTable]:
    header = read_opened_header(opened, limits=limits)
    name, identity = opened.name, opened.identity
    if header.metadata.keys() != {EVENT_KEY}:
        raise spool_error("spool-read", f"{name} carries no event", name)
    try:
        event = typed(load_json(header.metadata[EVENT_KEY].encode(), file=name, limits=limits))
    except ValueError as error:
        raise spool_error("spool-read", f"{name}: {error}", name) from None
    fault = tensor_fault(event, {e.name: (e.dtype, e.shape) for e in header.entries})
    request = getattr(event, "request", None)
    if request is not None and (unsafe(request) or len(request) > ID_LENGTH):
        fault = f"{shown(request)!r} is no request id"
    if fault is not None:
        raise spool_error("spool-read", f"{name}: event {type(event).__name__.lower()}: {fault}", name)

    def reopen() -> OpenedFile:
        with Folder(folder) as again:
            return again.open(name)

    return event, TensorTable([Shard(name, header, identity, reopen)])


def _sorted_out(folder: Path, stored: Sequence[Stored]) -> Spool:
    """Events by request. Order holds among the events of one writer, so that all of one request and rank must have one."""
    requests: dict[str, RequestEvents] = {}
    once: dict[type, Stored] = {}
    writers: dict[tuple[str, int], int] = {}
    for item in stored:
        if isinstance(item.event, Prompt):
            if item.event.request in requests:
                raise _twice(item)
            requests[item.event.request] = RequestEvents(item)
    for item in stored:
        event = item.event
        if isinstance(event, Start | End | Full):
            if not isinstance(event, Full) and type(event) in once:
                raise _twice(item)
            once.setdefault(type(event), item)
        elif not isinstance(event, Prompt):
            request = requests.get(event.request)
            if request is None:
                raise spool_error("spool-order", f"{item.file}: request {shown(event.request)} has no prompt", item.file)
            if isinstance(event, Output):
                if request.output is not None:
                    raise _twice(item)
                request.output = item
                continue
            rank = getattr(event, "rank", None) or 0
            if writers.setdefault((event.request, rank), item.writer) != item.writer:
                message = f"{item.file}: two processes wrote events of request {shown(event.request)}; their order is unknown"
                raise spool_error("spool-order", message, item.file)
            request.events.append(item)
    if Start not in once:
        raise spool_error("spool-order", f"the spool {folder.name} has no start: the engine did not get as far as running")
    start, end, full = once[Start].event, once.get(End), once.get(Full)
    assert isinstance(start, Start)
    counters = end.event.counters if end is not None and isinstance(end.event, End) else None
    limit = full.event.limit_bytes if full is not None and isinstance(full.event, Full) else None
    return Spool(folder, start, requests, counters, limit)


def _twice(item: Stored) -> InputRejected:
    what = type(item.event).__name__.lower()
    request = getattr(item.event, "request", None)
    whose = "" if request is None else f" of request {shown(request)}"
    return spool_error("spool-order", f"{item.file}: a second event {what}{whose}", item.file)
