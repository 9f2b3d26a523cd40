"""Writing a capture bundle, request by request; it appears under its name when it is complete, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from contract.errors import InternalError
from contract.files.atomic import atomic_write, atomic_writer
from contract.files.bundle_manifest import (
    MANIFEST_FILE,
    SCHEMA_VERSION,
    CountInfo,
    EngineInfo,
    ForwardInfo,
    ImitatedEngine,
    Manifest,
    ModelInfo,
    RequestInfo,
    StateName,
    TensorInfo,
    check_manifest,
    check_request,
)
from contract.files.bundle_rules import rejected
from contract.files.rules import rejected as file_rejected
from contract.files.writing import Buffer, encode_header, tensor_bytes
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits

Entry = tuple[str, Sequence[int], Buffer]
"""safetensors dtype, shape, little-endian bytes in row-major order."""
_FOLDER_MODE: Final = 0o777
STEM_BYTES: Final = 200
"""Of a bundle's name in that of a hidden folder; 255 is what file systems take."""


class BundleWriter:
    """A context manager: leaving the block without an exception writes the manifest and gives the bundle its name.

    Requests are written as they are added, each to a file of its own, into a hidden folder beside the final place; at most one
    request is held. An exception, a crash or a kill leaves no bundle under the name. ``counts`` and ``counters`` of the manifest may be
    filled until the block is left: an engine knows its own counts at the end.
    """

    def __init__(
        self,
        out: str | Path,
        *,
        kind: str,
        engine: EngineInfo,
        target: ModelInfo,
        recipe_fed: Sequence[StateName],
        layers: int,
        drafter: ModelInfo | None = None,
        imitates: ImitatedEngine | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Raises InputRejected (``bundle.exists``) if ``out`` is anything but an empty folder or a free name."""
        self.out = free_place(out)
        self._limits = limits
        self._kind, self._engine, self._target, self._drafter, self._imitates = kind, engine, target, drafter, imitates
        self._recipe, self._layers = list(recipe_fed), layers
        self._requests: list[RequestInfo] = []
        self._digests: dict[str, str] = {}
        self._ids: set[str] = set()
        self.counts: dict[str, CountInfo] = {}
        self.counters: dict[str, float] = {}
        self._bytes = 0
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=f".{hidden_stem(self.out)}.", suffix=".tmp", dir=self.out.parent))
        except OSError as error:
            raise write_failed(self.out, error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def add(
        self,
        id_: str,
        tensors: Mapping[str, Entry],
        *,
        sample: str | None = None,
        prompt_tokens: int | None = None,
        run: str = "",
        forwards: Sequence[ForwardInfo] = (),
    ) -> None:
        """Write one request. T is the length of ``input_ids``; all of them are the prompt unless ``prompt_tokens`` says otherwise.

        Raises:
            InputRejected: ``bundle.request`` (id taken or malformed), ``bundle.tensors`` (a slot is missing, a shape is wrong), or
                ``files.write-failed``.
            LimitExceeded: ``capture_bytes`` or ``samples``.
            InternalError: outside of the ``with`` block, or bytes do not fit their shape.
        """
        if self._folder is None:
            raise InternalError("BundleWriter.add outside of its with block")
        name = f"request-{len(self._requests):04d}.safetensors"
        infos = {n: TensorInfo(shape=tuple(int(d) for d in shape), dtype=dtype) for n, (dtype, shape, _) in tensors.items()}
        ids = infos.get("input_ids")
        tokens = ids.shape[0] if ids is not None and len(ids.shape) == 1 else 0
        info = RequestInfo(
            id=id_,
            file=name,
            tokens=tokens,
            tensors=infos,
            sample=sample,
            prompt_tokens=tokens if prompt_tokens is None else prompt_tokens,
            run=run,
            forwards=list(forwards),
        )
        if id_ in self._ids:
            raise rejected("bundle.request", f"two requests have the id {id_}", where=Where(sample=id_))
        check_request(info, states=len(self._recipe), layers=self._layers, file=MANIFEST_FILE)
        for n, (dtype, shape, data) in tensors.items():
            if memoryview(data).nbytes != tensor_bytes(dtype, shape):
                raise InternalError(f"tensor {n}: {memoryview(data).nbytes} bytes do not fit {dtype} {list(shape)}")
        head, size = encode_header({n: (dtype, shape) for n, (dtype, shape, _) in tensors.items()})
        self._bytes += len(head) + size
        self._limits.enforce("capture_bytes", self._bytes, what="the bundle", where=Where(file=name))
        self._limits.enforce("samples", len(self._requests) + 1, what="the bundle: requests", where=Where(file=name))
        with atomic_writer(self._folder / name) as file:
            digest = _write(file, [head, *(data for _, _, data in tensors.values())])
        self._requests.append(info)
        self._digests[name] = f"sha256:{digest}"
        self._ids.add(id_)

    def _finish(self) -> None:
        if self._folder is None:
            raise InternalError("BundleWriter was left twice")
        manifest = Manifest(
            schema_version=SCHEMA_VERSION,
            kind=self._kind,
            engine=self._engine,
            imitates=self._imitates,
            target=self._target,
            drafter=self._drafter,
            recipe_fed=self._recipe,
            layers=self._layers,
            complete=True,
            requests=self._requests,
            files=self._digests,
            counts=dict(self.counts),
            counters=dict(self.counters),
        )
        check_manifest(manifest, file=MANIFEST_FILE)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        atomic_write(self._folder / MANIFEST_FILE, text + b"\n")
        try:
            umask = os.umask(0o077)
            os.umask(umask)
            self._folder.chmod(_FOLDER_MODE & ~umask)
            os.rename(self._folder, self.out)  # replaces an empty folder, fails on anything else
        except OSError as error:
            raise write_failed(self.out, error) from error
        self._folder = None


def free_place(out: str | Path) -> Path:
    """Where a bundle can go. Raises InputRejected (``bundle.exists``) for anything but an empty folder or a free name."""
    place = Path(out)
    if place.is_symlink() or (place.exists() and not _is_empty_folder(place)):
        raise rejected("bundle.exists", f"{place} is already there", where=Where(file=str(place)))
    return place


def _write(file: BinaryIO, parts: Sequence[Buffer]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        file.write(part)
        digest.update(part)
    return digest.hexdigest()


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None


def hidden_stem(place: Path) -> str:
    """As much of a name as leaves room, in a file system's 255 bytes, for what a hidden folder beside it has more."""
    return place.name.encode()[:STEM_BYTES].decode(errors="ignore")


def write_failed(path: Path, error: OSError) -> Exception:
    """InputRejected (``files.write-failed``), with the system's reason."""
    return file_rejected("files.write-failed", f"{path}: {error.strerror or error}", where=Where(file=str(path)))
