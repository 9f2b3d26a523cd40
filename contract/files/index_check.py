"""An index against the shards that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contract.files.checkpoint_index import Index
from contract.files.names import shown
from contract.files.rules import Problem, problem
from contract.files.tensors import Shard
from contract.findings import Where


def agrees(index: Index, shards: Sequence[Shard]) -> bool:
    """True if the index lists every tensor of the shards, in its shard, and no other."""
    listed = index.weight_map
    return sum(len(shard.header) for shard in shards) == len(listed) and all(
        [*map(listed.get, shard.header.names)].count(shard.name) == len(shard.header) for shard in shards
    )


def check_index(index: Index, shards: Sequence[Shard], *, agreed: bool) -> Iterator[Problem]:
    """Tensors that only one side knows, and a total size that is none. Shards that could not be read are left out of both.

    ``agreed`` is what ``agrees`` said.
    """
    read = {shard.name for shard in shards}
    if not agreed:
        yield from _orphans(index, shards)
        yield from _missing(index, shards, read)
    if index.total_size is not None and read.issuperset(index.shards):
        yield from _total_size(index, shards)


def _orphans(index: Index, shards: Sequence[Shard]) -> Iterator[Problem]:
    listed = index.weight_map
    return (
        problem(
            "files.orphan-tensor",
            f"{shown(shard.name)} holds {shown(name)}, which the index "
            + (f"puts into {shown(listed[name])}" if name in listed else "does not list"),
            where=Where(file=shown(shard.name), tensor=shown(name)),
            expected=listed.get(name),
            actual=shard.name,
        )
        for shard in shards
        for name in shard.header.names
        if listed.get(name) != shard.name
    )


def _missing(index: Index, shards: Sequence[Shard], read: set[str]) -> Iterator[Problem]:
    held = {shard.name: set(shard.header.names) for shard in shards}
    return (
        problem(
            "files.missing-tensor",
            f"the index puts {shown(name)} into {shown(file)}, which does not hold it",
            where=Where(file=shown(file), tensor=shown(name)),
        )
        for name, file in index.weight_map.items()
        if file in read and name not in held[file]
    )


def _total_size(index: Index, shards: Sequence[Shard]) -> list[Problem]:
    total = sum(shard.header.file_size - shard.header.data_start for shard in shards)
    claim = index.total_size
    if type(claim) in (int, float) and claim == total:
        return []
    return [
        problem(
            "files.total-size",
            f"{index.file} claims {claim!r:.40} bytes of tensors; the shards hold {total}",
            where=Where(file=index.file, key="metadata.total_size"),
            expected=total,
            actual=claim if isinstance(claim, int | float) else str(claim)[:40],
        )
    ]
