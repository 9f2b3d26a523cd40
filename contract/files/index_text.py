"""An index that says exactly what the shards hold, recognised by its text: nothing of it needs to be decoded.

Writers lay an index out in one way, one tensor to a line, in the order of the names (huggingface_hub 0.36
``save_torch_model``: ``json.dumps(index, indent=2, sort_keys=True)``) or of the shards. From the headers that text is known; if it is
there, byte for byte, every tensor is listed, in its shard, once, and no other. Anything else is for the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from contract.files.tensors import Places, Shard
from contract.findings import Json

OPENING: Final = b'"weight_map": {\n    "'
KEPT: Final = len(OPENING) - len(b'\n    "')
CLOSING: Final = b'"\n  }'
BETWEEN: Final = '",\n    "'
BATCH: Final = 4096
"""Entries compared at once: as many megabytes in one piece would have to be made and thrown away."""
Decode = Callable[[bytes], tuple[Mapping[str, str], Mapping[str, Json]] | None]


def recognise(data: bytes, shards: Sequence[Shard], decode: Decode) -> tuple[Places, Mapping[str, Json]] | None:
    """(weight map, metadata) of an index that lists just the tensors of these shards; None if the decoder must say.

    Args:
        data: the file.
        shards: every weight file that it may name.
        decode: strictly decodes what is left of the index without the entries of its weight map; None where it refuses.
    """
    held = [shard for shard in shards if shard.header.names]
    if not held or not all(shard.header.plain and _is_plain(shard.name) for shard in shards):
        return None
    names = [shard.header.names for shard in held]
    if len(set().union(*names)) != sum(map(len, names)):
        return None
    begin = data.find(OPENING) + len(OPENING)
    if begin < len(OPENING):
        return None
    end = _end_by_shards(data, begin, held) or _end_by_names(data, begin, held)
    if end is None or not data.startswith(CLOSING, end):
        return None
    rest = data[: begin - len(OPENING) + KEPT] + data[end + 1 :]
    left = decode(rest) if rest.count(b'"weight_map"') == 1 else None
    # One weight_map, and empty without the entries: so they were its entries, and not part of a string or of the metadata.
    return None if left is None or left[0] else (Places(held), left[1])


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isprintable() and '"' not in name and "\\" not in name


def _end_by_shards(data: bytes, at: int, shards: Sequence[Shard]) -> int | None:
    """Where the entries end if they are there in the order of the shards."""
    for i, shard in enumerate(shards):
        text = (BETWEEN * (i > 0) + f'": "{shard.name}{BETWEEN}'.join(shard.header.names) + f'": "{shard.name}').encode()
        if not data.startswith(text, at):
            return None
        at += len(text)
    return at


def _end_by_names(data: bytes, at: int, shards: Sequence[Shard]) -> int | None:
    """Where the entries end if they are there in the order of the names."""
    entries: list[str] = []
    for shard in shards:
        value = f'": "{shard.name}'
        entries += (f"{value}\n".join(shard.header.names) + value).split("\n")
    # A quotation mark follows each name; it sorts before whatever else a longer name goes on with, except a blank or "!".
    entries.sort()
    for i in range(0, len(entries), BATCH):
        text = (BETWEEN * (i > 0) + BETWEEN.join(entries[i : i + BATCH])).encode()
        if not data.startswith(text, at):
            return None
        at += len(text)
    return at
