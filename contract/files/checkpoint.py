"""A checkpoint: a folder or a file of weights, read by its headers, with everything that is wrong with it.

Layouts, as Hugging Face, vLLM and SGLang load them: ``model.safetensors``; ``model.safetensors.index.json`` and its shards; a single
``*.safetensors``; several without an index; and, if allowed, a pickled ``pytorch_model.bin``.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final

from contract.errors import UserError
from contract.files.checkpoint_index import Index, read_index
from contract.files.index_check import agrees, check_index
from contract.files.inventory import FileInfo, FileKind, file_kind, list_folder
from contract.files.names import case_collisions, lookalikes, shown
from contract.files.paths import Folder, OpenedFile, open_path
from contract.files.rules import Problem, problem, problem_from_error, rejected, within_findings
from contract.files.safetensors_header import read_opened_header
from contract.files.tensors import HashingScan, Shard, TensorRef, TensorTable
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits

SINGLE_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"
PICKLE_FILES: Final = ("pytorch_model.bin", "model.pt", "model.bin")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The weights of a folder or file. Nothing but headers has been read.

    Attributes:
        path: as the user named it.
        tensors: name to tensor; a name that is in two files is the first file's (and a problem).
        shards: the weight files that could be read.
        extra: weight files beside the ones that the layout names, read too; their tensors are not in ``tensors``.
        index: the index, if there is one.
        files: every entry of the folder (the one file, for a file).
        problems: what is wrong, in the order it was found.
    """

    path: Path
    tensors: Mapping[str, TensorRef]
    shards: tuple[Shard, ...]
    extra: tuple[Shard, ...]
    index: Index | None
    files: tuple[FileInfo, ...]
    problems: tuple[Problem, ...]

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = True,
        known: Collection[str] = (),
        allow_pickle: bool = False,
    ) -> Checkpoint:
        """Read the headers of a checkpoint.

        Args:
            path: a folder, or one safetensors file (or pickle-family file).
            limits: the bounds.
            strict: raise the first problem that makes a file unusable instead of recording it.
            known: safetensors files of the folder that are no weights (golden rows, samples).
            allow_pickle: load ``pytorch_model.bin`` where there are no safetensors.

        Raises:
            InputRejected: the path cannot be opened; with ``strict``, any file is unusable.
            LimitExceeded: the folder has too many entries; with ``strict``, any limit.
        """
        place = Path(path)
        with _without_garbage_collection():
            if place.is_dir():
                checkpoint = _open_folder(place, limits, known, allow_pickle)
            else:
                checkpoint = _open_file(place, limits, allow_pickle)
        if strict:
            checkpoint.raise_if_rejected()
        return checkpoint

    def raise_if_rejected(self) -> None:
        """Raise the first problem that makes a file unusable."""
        for found in self.problems:
            if found.error is not None:
                raise found.error

    def read_bytes(self, name: str) -> bytearray:
        """The bytes of a tensor. Raises InputRejected if the file changed or cannot be read, KeyError for an unknown name."""
        return self.tensors[name].read_bytes()

    def read_rows(self, name: str, rows: Sequence[int]) -> bytearray:
        """The bytes of some rows of a tensor, in the order asked; only they are read. Raises like ``read_bytes``."""
        return self.tensors[name].read_rows(rows)

    def open_file(self, name: str) -> OpenedFile:
        """Open a file of the checkpoint by its name. Raises like ``contract.files.paths.Folder.open``."""
        if not self.path.is_dir():
            return open_path(self.path)
        with Folder(self.path) as folder:
            return folder.open(name)

    def sha256(self, name: str) -> str:
        """Hex digest of a file of the checkpoint, read once. Raises like ``open_file``."""
        with self.open_file(name) as opened:
            return opened.sha256()

    def scan(self, name: str) -> HashingScan:
        """One pass over the values of a weight file that hashes it on the way. Raises KeyError for an unknown file."""
        for shard in (*self.shards, *self.extra):
            if shard.name == name:
                return HashingScan(shard)
        raise KeyError(name)

    def cross_check(self) -> list[Problem]:
        """Compare with what the safetensors library sees; see ``contract.files.cross_check``."""
        from contract.files.cross_check import cross_check  # the library is needed here only

        return [found for shard in (*self.shards, *self.extra) for found in cross_check(shard)]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Decoding makes a million short-lived tuples and no cycle; the collector would walk them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Recording:
    """Turns a ``UserError`` of its block into a problem."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, UserError):
            self.problems.append(problem_from_error(error))
            return True
        return False


class _Reader:
    """Collects shards and problems within the limits of one checkpoint. A header is read once, however often it is asked for."""

    def __init__(self, limits: Limits, problems: list[Problem]) -> None:
        self.limits = limits
        self.problems = problems
        self.header_bytes = 0
        self.tensors = 0
        self._read: dict[str, tuple[Shard | None, list[Problem]]] = {}

    def recording(self) -> _Recording:
        return _Recording(self.problems)

    def shard(self, name: str, opener: partial[OpenedFile], held: OpenedFile | None = None) -> Shard | None:
        """Read one header; None, and a problem, if it is unusable. ``held`` is the file where it is open already."""
        shard, problems = self._look(name, opener, held)
        self.problems.extend(problems)
        return shard

    def _look(self, name: str, opener: partial[OpenedFile], held: OpenedFile | None = None) -> tuple[Shard | None, list[Problem]]:
        if name not in self._read:
            problems: list[Problem] = []
            shard = None
            with _Recording(problems):
                with opener() if held is None else nullcontext(held) as opened:
                    header = read_opened_header(opened, limits=self.limits)
                where = Where(file=name)
                self.header_bytes += header.data_start
                self.tensors += len(header)
                self.limits.enforce("total_header_bytes", self.header_bytes, what="the headers together", where=where)
                self.limits.enforce("tensors", self.tensors, what="the checkpoint", where=where)
                problems.extend(within_findings(header.problems(), self.limits, what=name, where=where))
                shard = Shard(name, header, opened.identity, opener)
            self._read[name] = shard, problems
        return self._read[name]

    def shards(self, folder: Path, names: Sequence[str]) -> tuple[Shard, ...]:
        with Folder(folder) as held:
            read = [self.shard(name, partial(held.open, name)) for name in names]
        return tuple(_reopening(shard, folder) for shard in read if shard is not None)

    def ahead(self, folder: Path, names: Sequence[str]) -> tuple[Shard, ...]:
        """``shards`` whose problems are not told yet; empty if any of them cannot be read."""
        with Folder(folder) as held:
            read = [self._look(name, partial(held.open, name))[0] for name in names]
        shards = tuple(shard for shard in read if shard is not None)
        return shards if len(shards) == len(names) else ()


def _reopening(shard: Shard, folder: Path) -> Shard:
    return Shard(shard.name, shard.header, shard.identity, partial(_open_in, folder, shard.name))


def _open_in(folder: Path, name: str) -> OpenedFile:
    with Folder(folder) as held:
        return held.open(name)


def _open_folder(path: Path, limits: Limits, known: Collection[str], allow_pickle: bool) -> Checkpoint:
    with Folder(path) as folder:
        files, problems = list_folder(folder, limits=limits)
    reader = _Reader(limits, problems)
    weights = [f.name for f in files if f.kind is FileKind.WEIGHTS and f.name not in known]
    index = None
    refused = {f.name for f in files if not f.usable}
    if any(f.name == INDEX_FILE for f in files):
        with reader.recording(), _open_in(path, INDEX_FILE) as opened:
            # The headers first: from them it is known what the index must say.
            whole = not refused.intersection(weights) and len(weights) <= limits.shards
            index = read_index(opened, limits=limits, files=weights, shards=reader.ahead(path, weights) if whole else ())
    main = list(index.shards) if index else [SINGLE_FILE] if SINGLE_FILE in weights else weights
    with reader.recording():
        limits.enforce("shards", len({*main, *weights}), what=f"{path}: weight files", where=Where(file=str(path)))
        shards = reader.shards(path, [name for name in _present(main, files, problems) if name not in refused])
        extra = reader.shards(path, [name for name in weights if name not in main and name not in refused])
        if not main:
            return _without_safetensors(path, files, reader, allow_pickle)
        agreed = index is not None and (index.recognised or agrees(index, shards))
        table = TensorTable(shards, index.weight_map if index is not None and agreed else None)
        more = chain(
            _clashes(table),
            _extra_weights(table, extra, index is not None),
            () if all(s.header.lowercase for s in shards) else name_problems(table),
            () if index is None else check_index(index, shards, agreed=agreed),
        )
        problems += within_findings(more, limits, what=str(path), where=Where(file=str(path)))
        return Checkpoint(path, table, shards, extra, index, files, tuple(problems))
    return Checkpoint(path, {}, (), (), index, files, tuple(problems))


def _present(names: Sequence[str], files: Sequence[FileInfo], problems: list[Problem]) -> Iterator[str]:
    """The shards that exist; a problem for each that does not. Names in subfolders are left to opening."""
    existing = {f.name for f in files}
    for name in names:
        if "/" in name or name in existing:
            yield name
        else:
            problems.append(
                problem_from_error(
                    rejected(
                        "files.missing-shard",
                        f"the index names {shown(name)}, which does not exist",
                        where=Where(file=shown(name)),
                    )
                )
            )


def _open_file(path: Path, limits: Limits, allow_pickle: bool) -> Checkpoint:
    problems: list[Problem] = []
    reader = _Reader(limits, problems)
    with open_path(path) as opened:
        info = FileInfo(path.name, file_kind(path.name), opened.size, opened.links, True)
        shard = None if info.kind is FileKind.PICKLE else reader.shard(path.name, partial(open_path, path), opened)
    if info.kind is FileKind.PICKLE:
        return _pickled(path, path, (info,), reader, allow_pickle)
    shards = (shard,) if shard else ()
    table = TensorTable(shards)
    odd = within_findings(name_problems(table), limits, what=path.name, where=Where(file=path.name))
    return Checkpoint(path, table, shards, (), None, (info,), (*problems, *odd))


def _without_safetensors(path: Path, files: tuple[FileInfo, ...], reader: _Reader, allow_pickle: bool) -> Checkpoint:
    pickles = [f.name for f in files if f.kind is FileKind.PICKLE]
    chosen = next((name for name in PICKLE_FILES if name in pickles), pickles[0] if len(pickles) == 1 else None)
    if chosen is not None:
        return _pickled(path, path / chosen, files, reader, allow_pickle)
    with reader.recording():
        held = ", ".join(shown(f.name) for f in files[:8]) or "nothing"
        raise rejected("files.no-weights", f"{path} holds no weights ({held})", where=Where(file=str(path)))
    return Checkpoint(path, {}, (), (), None, files, tuple(reader.problems))


def _pickled(path: Path, file: Path, files: tuple[FileInfo, ...], reader: _Reader, allow_pickle: bool) -> Checkpoint:
    from contract.files.pickled import load_pickled  # needed here only, and it takes a tenth of the start

    with reader.recording():
        tree = load_pickled(file, allow_pickle=allow_pickle, limits=reader.limits)
        if not isinstance(tree, dict) or not all(isinstance(k, str) for k in tree):
            raise rejected("files.pickle-content", f"{file.name} holds no map from names to tensors", where=Where(file=file.name))
        tensors = {name: value for name, value in tree.items() if isinstance(value, TensorRef)}
        reader.problems.extend(
            problem("files.pickle-content", f"{file.name}: {shown(n)} is no tensor", where=Where(file=file.name, key=shown(n)))
            for n in tree
            if n not in tensors
        )
        return Checkpoint(path, tensors, (), (), None, files, (*reader.problems, *name_problems(tensors)))
    return Checkpoint(path, {}, (), (), None, files, tuple(reader.problems))


def _clashes(table: TensorTable) -> Iterator[Problem]:
    return (
        problem_from_error(
            rejected(
                "files.tensor-in-two-files",
                f"tensor {shown(name)} is in {' and '.join(map(shown, held))}",
                where=Where(file=shown(held[1]), tensor=shown(name)),
            )
        )
        for name, held in table.clashes().items()
    )


def _extra_weights(table: TensorTable, extra: Sequence[Shard], indexed: bool) -> list[Problem]:
    """Weight files that the layout does not name: a clash of names is refused, for engines disagree on which copy they load."""
    found: list[Problem] = []
    for shard in extra:
        twice = [name for name in shard.header.names if name in table]
        where = Where(file=shown(shard.name))
        if twice:
            more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
            first = table[twice[0]].file
            found.append(
                problem_from_error(
                    rejected(
                        "files.tensor-in-two-files",
                        f"tensor {shown(twice[0])}{more} is in {shown(first)} and in {shown(shard.name)}",
                        where=Where(file=shown(shard.name), tensor=shown(twice[0])),
                    )
                )
            )
        elif indexed:
            found.append(problem("files.unlisted-weights", f"{shown(shard.name)} is not in the index", where=where))
        else:
            found.append(problem("files.extra-weights", f"{shown(shard.name)} lies beside {', '.join(table.files)}", where=where))
    return found


def name_problems(tensors: Mapping[str, TensorRef]) -> Iterator[Problem]:
    """Tensor names that look alike or differ only in case."""
    return (
        problem(
            rule,
            f"the tensors {first!a:.100} and {second!a:.100} {how}",
            where=Where(tensor=shown(second)),
        )
        for rule, pairs, how in (
            ("files.case-collision", case_collisions(tensors), "differ only in case"),
            ("files.ambiguous-names", lookalikes(tensors), "look alike"),
        )
        for first, second in pairs
    )
