"""Reading a capture bundle: what a running engine really fed its drafter.

Strict: the manifest is complete, every file of the folder is in it and has its digest, every tensor is there with its shape and
dtype, and nothing else is. Tensor data are read when asked for, from the very files whose digests were checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from contract.files.bundle_manifest import MANIFEST_FILE, Manifest, RequestInfo, parse_manifest
from contract.files.bundle_rules import rejected
from contract.files.names import shown
from contract.files.paths import Folder, OpenedFile
from contract.files.safetensors_header import read_opened_header
from contract.files.tensors import Shard, TensorRef, TensorTable
from contract.findings import Where
from contract.jsonio import load_json
from contract.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, eq=False)
class BundleRequest:
    """One captured prompt.

    Attributes:
        id: unique in the bundle.
        tokens: T, the rows of every tensor except ``forward.*``.
        sample: the training sample it repeats, if any.
        info: what the manifest says about it: prompt_tokens, run, forwards.
        tensors: name to tensor on disk (``contract.files.torch_tensors.load_tensor`` reads one).
    """

    id: str
    tokens: int
    sample: str | None
    info: RequestInfo
    tensors: Mapping[str, TensorRef]


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A bundle that passed every check. ``requests`` are in the order of the manifest."""

    path: Path
    manifest: Manifest
    requests: tuple[BundleRequest, ...]

    def request(self, id_: str) -> BundleRequest:
        """The request with that id. Raises KeyError."""
        for request in self.requests:
            if request.id == id_:
                return request
        raise KeyError(id_)


def open_bundle(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> Bundle:
    """Read and check a bundle. Every file is hashed once, no tensor is decoded.

    Raises:
        InputRejected: it is torn, incomplete, changed or malformed (rules ``bundle.*`` and ``files.*``).
        LimitExceeded: ``capture_bytes``, ``samples``, ``folder_files`` or a limit on headers.
    """
    with Folder(path) as folder:
        names = _entries(folder, limits)
        if MANIFEST_FILE not in names:
            raise rejected("bundle.incomplete", f"{path} holds no {MANIFEST_FILE}", where=Where(file=str(path)))
        with folder.open(MANIFEST_FILE) as opened:
            limits.enforce("json_bytes", opened.size, what=MANIFEST_FILE, where=Where(file=MANIFEST_FILE), rule="files.json-too-large")
            manifest = parse_manifest(load_json(opened.read_all(), file=MANIFEST_FILE, limits=limits), file=MANIFEST_FILE)
        limits.enforce("samples", len(manifest.requests), what=f"{MANIFEST_FILE}: requests", where=Where(file=MANIFEST_FILE))
        _closed_world(names - {MANIFEST_FILE}, manifest)
        total = 0
        requests = []
        for info in manifest.requests:
            with folder.open(info.file) as opened:
                total += opened.size
                limits.enforce("capture_bytes", total, what="the bundle", where=Where(file=info.file))
                requests.append(_read_request(Path(path), info, opened, manifest.files[info.file], limits))
    return Bundle(Path(path), manifest, tuple(requests))


def _entries(folder: Folder, limits: Limits) -> set[str]:
    names: set[str] = set()
    for name in os.listdir(folder.fd):
        names.add(name)
        limits.enforce("folder_files", len(names), what=str(folder.path), where=Where(file=str(folder.path)))
    return names


def _closed_world(found: set[str], manifest: Manifest) -> None:
    listed = manifest.files.keys()
    for name in sorted(listed ^ found):
        where = "in the manifest and not in the folder" if name in listed else "in the folder and not in the manifest"
        raise rejected("bundle.closed-world", f"{shown(name)} is {where}", where=Where(file=shown(name)))


def _read_request(folder: Path, info: RequestInfo, opened: OpenedFile, digest: str, limits: Limits) -> BundleRequest:
    found = f"sha256:{opened.sha256()}"
    if found != digest:
        message = f"{shown(info.file)} has the digest {found}, the manifest says {digest}"
        raise rejected("bundle.digest", message, where=Where(file=info.file))
    header = read_opened_header(opened, limits=limits)
    held = {e.name: (e.dtype, e.shape) for e in header.entries}
    listed = {name: (t.dtype, t.shape) for name, t in info.tensors.items()}
    for name in sorted(held.keys() | listed.keys()):
        if held.get(name) != listed.get(name):
            message = f"{shown(info.file)}: tensor {shown(name)} is {_text(held.get(name))}, the manifest says {_text(listed.get(name))}"
            raise rejected("bundle.tensors", message, where=Where(file=info.file, tensor=shown(name)))
    identity, file = opened.identity, info.file

    def reopen() -> OpenedFile:
        with Folder(folder) as again:
            return again.open(file)

    return BundleRequest(info.id, info.tokens, info.sample, info, TensorTable([Shard(file, header, identity, reopen)]))


def _text(tensor: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if tensor is None else f"{tensor[0]} {list(tensor[1])}"
