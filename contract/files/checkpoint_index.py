"""The index of a sharded checkpoint: ``model.safetensors.index.json``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from contract.files.counting import count_quotes
from contract.files.index_text import recognise
from contract.files.names import shown, unsafe
from contract.files.paths import OpenedFile, relative_parts
from contract.files.rules import rejected
from contract.files.tensors import Shard
from contract.findings import Json, Where
from contract.jsonio import count_strings, load_json
from contract.limits import Limits


def _index_type(files: Collection[str]) -> Any:
    """The type of an index whose shards are among these files: each file name is then decoded to one string, not to thousands."""
    literal: Any = Literal
    mapping: Any = dict
    shard = literal[tuple(files)] if files else str
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("weight_map", mapping[str, shard]), ("metadata", dict[str, Any] | None, None)]
    return msgspec.defstruct("_Index", fields, forbid_unknown_fields=True)


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """An index.

    Attributes:
        file: its name.
        weight_map: tensor name to file name.
        shards: the file names, each a plain name inside the folder, in alphabetical order.
        total_size: ``metadata.total_size`` as written, None if absent.
        recognised: it is known to list every tensor of the shards it was read with, in its shard, and no other.
    """

    file: str
    weight_map: Mapping[str, str]
    shards: tuple[str, ...]
    total_size: Json
    recognised: bool = False


def read_index(opened: OpenedFile, *, limits: Limits, files: Collection[str] = (), shards: Sequence[Shard] = ()) -> Index:
    """Read an index.

    Args:
        opened: the file.
        limits: the bounds.
        files: names of the weight files that exist. It is read faster if it names no other.
        shards: those of them that could be read. It is read much faster if it says exactly what they hold.

    Raises:
        InputRejected: bad JSON, a duplicate key, another structure, or a file name that leaves the folder.
        LimitExceeded: bytes or shards.
    """
    where = Where(file=opened.name)
    limits.enforce("index_bytes", opened.size, what=opened.name, where=where, rule="files.json-too-large")
    data = opened.read_all()
    known = recognise(data, shards, lambda rest: _decode_fast(rest, ())) if shards else None
    weight_map: Mapping[str, str]
    if known is not None:
        weight_map, metadata = known
        named = sorted(shard.name for shard in shards if shard.header.names)
    else:
        weight_map, metadata = _decode_fast(data, files) or _decode_strict(data, opened.name, limits)
        named = sorted(set(weight_map.values()))
    limits.enforce("shards", len(named), what=f"{opened.name}: shards", where=where)
    limits.enforce("tensors", len(weight_map), what=f"{opened.name}: tensors", where=where)
    for shard in named:
        relative_parts(shard)
    return Index(opened.name, weight_map, tuple(named), metadata.get("total_size"), known is not None)


def _decode_fast(data: bytes, files: Collection[str]) -> tuple[Mapping[str, str], Mapping[str, Json]] | None:
    """The index if it is plain; None if the strict reader must decide. Duplicates are found by counting (see ``jsonio``)."""
    if b"\\" in data or not data.isascii() or b"\x7f" in data:
        return None
    try:
        index = msgspec.json.decode(data, type=_index_type(files))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    strings = 1 + 2 * len(index.weight_map)
    if index.metadata is not None:
        strings += 1 + count_strings(index.metadata)
    elif b'"metadata"' in data:
        return None
    return (index.weight_map, index.metadata or {}) if count_quotes(data) == 2 * strings else None


def _decode_strict(data: bytes, file: str, limits: Limits) -> tuple[Mapping[str, str], Mapping[str, Json]]:
    tree = load_json(data, file=file, limits=limits, limit="index_bytes")
    where = Where(file=file, key="weight_map")
    weight_map = tree.get("weight_map") if isinstance(tree, dict) else None
    if not isinstance(weight_map, dict):
        raise rejected("files.index-malformed", f"{file} has no weight_map", where=where)
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            raise rejected("files.index-malformed", f"{file}: {shown(name)!r} is mapped to no file name", where=where)
        if (why := unsafe(name)) is not None:
            raise rejected("files.tensor-name", f"{file}: the name {shown(name)!r} {why}", where=where)
    metadata = tree.get("metadata")
    return weight_map, metadata if isinstance(metadata, dict) else {}
