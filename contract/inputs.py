"""From what a user names to what a command opens: folders, folders of the Hugging Face cache, and repositories of the Hub.

Every command comes through ``local_inputs``: its body sees folders only, and what is said of them afterwards names them as the user did.
How much of a repository is fetched depends on the command: static checks and targets are read by ranges (headers, the vocab map, some
rows), whole files are fetched where a forward runs or files are written anew. See docs/adr/0010.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from contract.answers import Answer, Result
from contract.errors import UserError
from contract.files.hub_id import HubId, hub_id, looks_bare, shadowed
from contract.files.names import shown
from contract.files.rules import rejected
from contract.findings import Check, Json, Rule
from contract.limits import DEFAULT_LIMITS, Limits
from contract.reporting import Report
from contract.requests import (
    CaptureRequest,
    CardRequest,
    CheckRequest,
    DraftRequest,
    ExportRequest,
    InitRequest,
    ReadRequest,
    Request,
    ShowRequest,
    VerifyRequest,
)
from contract.words import first_few

Q = TypeVar("Q", bound=Request)
PATHS: Final = ("spec", "drafter", "target", "samples", "prompts", "inputs", "capture", "spool", "resume", "out", "keep", "engine_python")
"""Fields of requests that are paths, or may be."""
LONGEST_PATH: Final = 3072
"""Bytes of a path that is named, so that the files below it can be opened (PATH_MAX of Linux is 4,096)."""
CONTRACT_FILE: Final = "contract.yaml"
"""What a repository is taken to call its contract, where none is named."""


class Depth(Enum):
    """How much of a repository is fetched."""

    RANGES = "ranges"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class Fetched:
    """One repository that stands behind an input.

    Attributes:
        field: the input of the request (``drafter``, ``target``, ``spec``).
        text: as the user named it.
        folder: where it is for the length of the command.
        commit: the commit that was read.
        depth: None for a snapshot that was on this disk.
        left: files that are not fetched, for no check reads them.
    """

    field: str
    text: str
    folder: Path
    commit: str
    depth: Depth | None
    pinned: bool
    left: Sequence[str] = ()

    def as_json(self) -> dict[str, Json]:
        """Its line in the provenance."""
        how = "cache" if self.depth is None else self.depth.value
        return {"input": self.field, "name": self.text, "commit": self.commit, "read": how, "not_fetched": list(self.left)}


@dataclass(slots=True)
class Inputs:
    """What stands behind the inputs of one request, and what is to be said of it. ``text_is_kept``: an answer's text is a document."""

    fetched: list[Fetched] = field(default_factory=list)
    local: list[tuple[str, str]] = field(default_factory=list)
    text_is_kept: bool = False

    def told(self, result: Result) -> Result:
        """A report or an answer that names the inputs as the user did, and says which commits they were."""
        if not self.fetched and not self.local:
            return result
        return self._report(result) if isinstance(result, Report) else self._answer(result)

    def _report(self, report: Report) -> Report:
        checks = [self._named_check(check) for check in report.checks]
        provenance = {**report.provenance, **({"hub": [f.as_json() for f in self.fetched]} if self.fetched else {})}
        subject = {name: self.named(value) for name, value in report.subject.items()}
        measurements = {name: self.named(value) for name, value in report.measurements.items()}
        return replace(report, subject=subject, measurements=measurements, checks=[*checks, *self.checks()], provenance=provenance)

    def _answer(self, answer: Answer) -> Answer:
        lines = [self.named(answer.text)]
        if not self.text_is_kept:
            lines += [f"{f.field}: {f.text} is commit {f.commit}" for f in self.fetched]
            lines += [f"{check.severity.value}: {check.message}" for check in self.checks()]
        data = self.named(answer.data)
        if self.fetched:
            hub: list[Json] = [f.as_json() for f in self.fetched]
            data = [{**d, "hub": hub} for d in data] if isinstance(data, list) else {**data, "hub": hub}
        return replace(answer, text="\n".join(lines), data=data)

    def _named_check(self, check: Check) -> Check:
        where = check.where
        if where is not None and where.file is not None:
            where = replace(where, file=self.named(where.file))
        return replace(
            check,
            message=self.named(check.message),
            fix=self.named(check.fix),
            where=where,
            expected=self.named(check.expected),
            actual=self.named(check.actual),
            evidence=self.named(check.evidence),
        )

    def named(self, value: Any) -> Any:
        """A value with every folder of ``fetched`` written as the user named it."""
        if isinstance(value, str):
            for fetched in self.fetched:
                value = value.replace(str(fetched.folder), fetched.text)
            return value
        if isinstance(value, Mapping):
            return {key: self.named(item) for key, item in value.items()}
        return [self.named(item) for item in value] if isinstance(value, list | tuple) else value

    def name_error(self, error: UserError) -> None:
        """The same for an error on its way out."""
        error.message, error.fix = self.named(error.message), self.named(error.fix)
        if error.where is not None and error.where.file is not None:
            error.where = replace(error.where, file=self.named(error.where.file))
        error.args = (error.message,)

    def checks(self) -> Iterator[Check]:
        """Warnings and notes about how the inputs were named."""
        if not self.fetched and not self.local:
            return
        from contract.files.hub_rules import HUB_RULES  # only where there is something to say

        def say(rule: str, message: str) -> Check:
            found: Rule = HUB_RULES[rule]
            return found.failed(message)

        for fetched in self.fetched:
            if not fetched.pinned:
                yield say("hub.revision-not-pinned", f"{fetched.field}: {fetched.text} is commit {fetched.commit} now, and may be another")
            if fetched.left:
                yield say("hub.files-not-fetched", f"{fetched.field}: {first_few(fetched.left)}: not fetched and not looked at")
        for name, text in self.local:
            yield say("hub.local-wins", f"{name}: {text} is a file or folder here, and was read instead of a repository of that name")


def depths(request: Request) -> Mapping[str, Depth]:
    """The inputs of a request that may be repositories, and how much of each its body reads."""
    files, ranges = Depth.FILES, Depth.RANGES
    if isinstance(request, ReadRequest):
        return {"drafter": files if request.allow_pickle else ranges, "target": ranges}
    if isinstance(request, CheckRequest):
        static = request.integrity == "headers" and request.samples is None and not request.allow_pickle
        return {"spec": ranges if static else files, "target": ranges}
    if isinstance(request, VerifyRequest):
        return {"spec": files, "target": files if request.engine is not None or request.executor != "local" else ranges}
    if isinstance(request, CaptureRequest):
        return {"spec": files, "target": files}
    if isinstance(request, DraftRequest):
        return {"drafter": files, "spec": ranges, "target": ranges}
    if isinstance(request, InitRequest):
        return {"drafter": files, "target": ranges}
    if isinstance(request, ExportRequest):
        return {"spec": files, "target": ranges}
    return {"spec": ranges, "target": ranges} if isinstance(request, ShowRequest | CardRequest) else {}


@contextmanager
def local_inputs(request: Q, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[tuple[Q, Inputs]]:
    """The request with folders for its inputs, which are there for the length of the block.

    Raises:
        InputRejected: rule ``files.unreadable``: a path that no file can have, or that leads in a circle.
        UserError: a repository cannot be found, read or believed; also every error of the block, its paths as the user named them.
    """
    for name in PATHS:
        _require_usable(name, getattr(request, name, None))
    inputs = Inputs(text_is_kept=isinstance(request, CardRequest))
    with ExitStack() as held:
        changed: dict[str, Any] = {}
        known = {f.name for f in fields(request)}
        for name, depth in depths(request).items():
            text = getattr(request, name) if name in known else None
            if text is None:
                continue
            if shadowed(text):
                inputs.local.append((name, text))
            found = _resolve(name, text, depth, held, limits, allow_pickle=getattr(request, "allow_pickle", False))
            if found is not None:
                fetched, path = found
                inputs.fetched.append(fetched)
                changed[name] = str(path)
        if isinstance(request, VerifyRequest) and any(f.depth is Depth.RANGES for f in inputs.fetched):
            changed["workers"] = 1  # the ranges are read by this process
        try:
            yield (replace(request, **changed) if changed else request), inputs
        except UserError as error:
            inputs.name_error(error)
            named = [t for name in depths(request) if isinstance(t := getattr(request, name, None), str)]
            if error.rule == "files.not-found" and any(looks_bare(t) and not os.path.lexists(t) for t in named):
                error.fix += " A repository of the Hub is written hf:org/name@COMMIT."
            raise


def _require_usable(name: str, text: str | None) -> None:
    """Refuse a path whose every use would fail, for ``Path.is_file`` and its like raise there instead of answering."""
    if text is None:
        return
    reason = None
    try:
        if len(os.fsencode(text)) > LONGEST_PATH:
            reason = "the path is too long"
        else:
            os.stat(text)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if reason is not None:
        raise rejected("files.unreadable", f"{name} {shown(text)}: {reason}", where=None)


def _resolve(name: str, text: str, depth: Depth, held: ExitStack, limits: Limits, *, allow_pickle: bool) -> tuple[Fetched, Path] | None:
    asked = hub_id(text)
    if asked is None:
        return _cache_folder(name, text)
    from contract.files.hub_http import HubClient

    client = HubClient(limits)  # says that huggingface_hub is missing
    folder, commit, how, left = _folder(client, asked, depth, held, allow_pickle=allow_pickle)
    said = text if asked.file is None else text.removesuffix(f"/{asked.file}")
    fetched = Fetched(name, said, folder, commit, how, asked.pinned, left)
    if asked.file is not None or name == "spec":
        return fetched, folder / (asked.file or CONTRACT_FILE)
    return fetched, folder


def _folder(
    client: Any, asked: HubId, depth: Depth, held: ExitStack, *, allow_pickle: bool
) -> tuple[Path, str, Depth | None, tuple[str, ...]]:
    from contract.files.hub_cache import cached_snapshot, fetch_snapshot, offline
    from contract.files.hub_mount import mounted
    from contract.files.hub_repository import look_up

    if offline():
        folder = cached_snapshot(asked)
        return folder, folder.name, None, ()
    repository = look_up(client, asked)
    left = tuple(file.name for file in repository.files if not file.is_data(allow_pickle=True) and not file.name.startswith("."))
    if depth is Depth.FILES:
        return fetch_snapshot(client, repository, allow_pickle=allow_pickle), repository.commit, depth, left
    return held.enter_context(mounted(client, repository)), repository.commit, depth, left


def _cache_folder(name: str, text: str) -> tuple[Fetched, Path] | None:
    """The snapshot inside of a folder ``models--org--name`` of a Hugging Face cache."""
    place = Path(text)
    if name == "spec" or not place.name.startswith("models--"):
        return None
    from contract.files.hub_cache import is_repository_folder, snapshot_in

    if not is_repository_folder(place):
        return None
    folder = snapshot_in(place, None)
    return Fetched(name, text, folder, folder.name, None, True), folder
