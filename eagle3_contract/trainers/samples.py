"""Training samples on disk: which files of a folder are samples, and reading them one at a time."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.links import refuse_link_out
from contract.files.names import shown
from contract.files.paths import open_path
from contract.files.pickled import PickleLoader, refuse_pickle
from contract.files.safetensors_header import read_header
from contract.files.walking import files_below
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.trainers.sample import SampleRejected, TrainingSample, rejected
from eagle3_contract.trainers.sample_formats.neutral import FORMAT, read_neutral
from eagle3_contract.trainers.sample_formats.pickled import read_record
from eagle3_contract.trainers.sample_formats.speculators_hs import KEYS, read_states

__all__ = ["SampleReader", "SampleRejected", "TrainingSample", "find_samples", "load_sample"]

PICKLED: Final = (".pt", ".ckpt", ".pt.gz", ".ckpt.gz")
SAFETENSORS: Final = ".safetensors"
PEEK_BYTES: Final = 256 * 1024
"""A torch archive begins with its pickle, which names the keys; so much of it is looked at (never unpickled) to tell samples from vocab
maps and token counts that trainers leave beside them."""
PEEK_HEADER: Final = 1024
"""Our own container names its format at the very beginning, where writers put a header's metadata; it need not be parsed twice."""
_NEUTRAL: Final = f'"format":"{FORMAT}"'.encode()


def find_samples(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> list[Path]:
    """The sample files under a folder, in natural order (data_2 before data_10); a file is itself.

    By content: files that are surely something else (vocab maps, token counts, weights, golden rows) are left out; a file that cannot be
    looked into is kept, so that reading it fails loudly. An empty folder gives an empty list.

    Raises:
        InputRejected: ``samples.not-found``; ``files.path-escape`` for a link to a file elsewhere; ``files.unreadable`` for a path that is
            too long, or a folder that cannot be listed.
        LimitExceeded: ``samples``, ``folder_depth``.
    """
    place = Path(path)
    if os.path.isfile(place):
        return [place]
    if not os.path.isdir(place):
        raise InputRejected(
            f"there are no samples at {shown(str(place), 1024)}",
            rule="samples.not-found",
            fix="Check the path.",
            where=Where(file=str(place)),
        )
    found = []
    for candidate in files_below(place, limits):
        if not candidate.name.endswith((*PICKLED, SAFETENSORS)) or candidate.is_dir():
            continue
        refuse_link_out(candidate, place)
        if _may_be_sample(candidate, limits):
            found.append(candidate)
            limits.enforce("samples", len(found), what=f"{place}: samples", where=Where(file=str(place)))
    return sorted(found, key=lambda p: _natural(p.relative_to(place).as_posix()))


def load_sample(file: str | Path, *, allow_pickle: bool, root: str | Path | None = None, limits: Limits = DEFAULT_LIMITS) -> TrainingSample:
    """Read one sample. For many, use :class:`SampleReader`, which keeps the child process that loads pickles.

    Raises:
        SampleRejected: it is no sample, or its tensors contradict each other (``samples.*``).
        InputRejected: it cannot be read, is malformed, or is pickle-based without ``allow_pickle`` (``files.*``).
        LimitExceeded: a named limit was hit.
    """
    with SampleReader(allow_pickle=allow_pickle, root=root, limits=limits) as reader:
        return reader.load(file)


class SampleReader:
    """Reads samples one at a time and holds none of them. A context manager.

    Args:
        allow_pickle: whether the user allowed pickle-based files.
        root: the samples' folder; names are relative to it (without: the file's name).
    """

    def __init__(self, *, allow_pickle: bool, root: str | Path | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._allow_pickle = allow_pickle
        self._root = None if root is None else Path(root)
        self._limits = limits
        self._loader: PickleLoader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def load(self, file: str | Path) -> TrainingSample:
        """Read one sample. Raises like :func:`load_sample`."""
        path = Path(file)
        name = self.name_of(path)
        if path.name.endswith(SAFETENSORS):
            return self._safetensors(path, name)
        if not self._allow_pickle:
            with open_path(path):
                raise refuse_pickle(str(path))
        if self._loader is None:
            self._loader = PickleLoader(limits=self._limits)
        return read_record(self._loader.load(path), name=name, file=str(path))

    def name_of(self, path: Path) -> str:
        """How messages and manifests call a file: relative to the root where it lies below it, else by its own name."""
        if self._root is None:
            return path.name
        root, text = self._root.as_posix(), path.as_posix()
        start = "" if root == "." else f"{root.rstrip('/')}/"
        below = text.startswith(start) and (bool(start) or not path.is_absolute())
        return text[len(start) :] if below else path.name

    def _safetensors(self, path: Path, name: str) -> TrainingSample:
        checkpoint = Checkpoint.open(path, limits=self._limits)
        metadata = checkpoint.shards[0].header.metadata
        if metadata.get("format") == FORMAT:
            return read_neutral(checkpoint.tensors, metadata, name=name, file=str(path))
        if checkpoint.tensors.keys() == KEYS:
            return read_states(checkpoint.tensors, name=name, path=path)
        names = ", ".join(sorted(checkpoint.tensors))[:200] or "(none)"
        raise rejected("unknown-format", f"the tensors {names} are no trainer's sample", str(path), "See docs/sample-format.md.")


def _may_be_sample(path: Path, limits: Limits) -> bool:
    """False only for what is surely no sample."""
    if path.name.endswith(SAFETENSORS):
        if _NEUTRAL in _peek(path, PEEK_HEADER):
            return True
        try:
            header = read_header(path, limits=limits)
        except InputRejected:
            return True
        return header.metadata.get("format") == FORMAT or set(header.names) == KEYS
    head = _peek(path)
    return not (head.startswith(b"PK") and b"data.pkl" in head) or b"input_ids" in head


def _peek(path: Path, count: int = PEEK_BYTES) -> bytes:
    """The first ``count`` bytes, inflated if they are packed; empty if they cannot be had."""
    try:
        with open_path(path) as opened, open(opened.fd, "rb", closefd=False) as file:
            head = file.read(2)
            file.seek(0)
            if head != b"\x1f\x8b":
                return file.read(count)
            with gzip.GzipFile(fileobj=file) as packed:
                return packed.read(count)
    except (InputRejected, OSError, EOFError, zlib.error):
        return b""


def _natural(text: str) -> list[tuple[int, int | str]]:
    return [(1, int(part)) if part.isdecimal() and len(part) < 19 else (0, part) for part in re.split(r"(\d+)", text)]
