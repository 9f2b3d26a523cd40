"""Writing an export: a new folder, whole or not at all; weights by hard link where no byte changes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from contract.errors import InputRejected, UsageError
from contract.files.atomic import atomic_write, atomic_writer
from contract.files.checkpoint import INDEX_FILE, Checkpoint
from contract.files.tensors import Shard, TensorRef, TensorTable
from contract.files.writing import encode_header
from contract.findings import Json, Where
from eagle3_contract.export.rules import LAYOUT, OUT

CHUNK: Final = 8 * 2**20
Rewrite = Callable[[str, TensorRef], bytes | None]
"""Stored name and tensor to its new bytes, or None where they stay."""


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """A folder that takes the name ``out`` when the block ends without an exception, and leaves no trace otherwise.

    Raises:
        UsageError: ``export.out``: something is there already.
        InputRejected: ``export.out``: it cannot be made.
    """
    place = Path(out)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{place} is there already and not empty", rule=OUT.id, fix=OUT.remedy)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise InputRejected(
            f"{place} cannot be made: {error.strerror}", rule=OUT.id, fix=OUT.remedy, where=Where(file=str(place))
        ) from error
    try:
        yield working
        if place.exists():
            place.rmdir()
        os.chmod(working, 0o755)
        os.replace(working, place)
    finally:
        shutil.rmtree(working, ignore_errors=True)


def write_json(path: Path, value: Json) -> None:
    """A JSON file as people read it, atomically."""
    atomic_write(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_weights(checkpoint: Checkpoint, names: Mapping[str, str], rewrite: Rewrite | None, out: Path) -> list[str]:
    """Every weight file and the index; returns the files that had to be rewritten.

    Args:
        names: stored name to the name in the export, for those that change.
        rewrite: gives the new bytes of tensors whose values move; None if no value moves.

    Raises:
        InputRejected: ``export.layout``: the weights are no safetensors. ``files.*`` if a file changed meanwhile.
    """
    if not checkpoint.shards:
        raise InputRejected(f"{checkpoint.path} holds no safetensors", rule=LAYOUT.id, fix=LAYOUT.remedy)
    rewritten: list[str] = []
    for shard in (*checkpoint.shards, *checkpoint.extra):
        table = TensorTable([shard])
        moved = {n: b for n in table if rewrite is not None and (b := rewrite(n, table[n])) is not None}
        if not moved and not any(n in names for n in table):
            link(checkpoint.path / shard.name if checkpoint.path.is_dir() else checkpoint.path, out / shard.name)
            continue
        _rewrite(shard, table, names, moved, out / shard.name)
        rewritten.append(shard.name)
    if checkpoint.index is not None:
        raw: dict[str, Any] = json.loads(bytes(_read(checkpoint, INDEX_FILE)))
        raw["weight_map"] = {names.get(n, n): f for n, f in checkpoint.index.weight_map.items()}
        write_json(out / INDEX_FILE, raw)
    return rewritten


def _read(checkpoint: Checkpoint, name: str) -> bytes:
    with checkpoint.open_file(name) as opened:
        return opened.read_all()


def _rewrite(shard: Shard, table: TensorTable, names: Mapping[str, str], moved: Mapping[str, bytes], out: Path) -> None:
    refs = sorted((table[n] for n in table), key=lambda r: r.offset)
    head, _ = encode_header({names.get(r.name, r.name): (r.dtype, r.shape) for r in refs}, {"format": "pt"})
    with shard.open() as opened, atomic_writer(out) as file:
        file.write(head)
        for ref in refs:
            if ref.name in moved:
                file.write(moved[ref.name])
                continue
            for at in range(0, ref.nbytes, CHUNK):
                file.write(opened.read(ref.offset + at, min(CHUNK, ref.nbytes - at)))
        opened.verify_unchanged()


def link(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            raise InputRejected(
                f"{source} cannot be copied: {error.strerror}", rule=OUT.id, fix=OUT.remedy, where=Where(file=str(source))
            ) from error
