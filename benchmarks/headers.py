"""Speed item 1: a checkpoint of a trillion parameters, statically checked, against decoding its headers and opening its shards.

All of it is in one process. ``open`` is ``Checkpoint.open``: headers, index, every rule about files, duplicate names refused. ``check`` is
the whole static check of a small drafter's contract with that checkpoint as ``--target``. Peak memory is that of a process that does
nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import big_checkpoint
import msgspec
from measure import Outcome, child_json, interleaved, main, paired, record
from safetensors import safe_open

from contract.files.checkpoint import Checkpoint
from eagle3_contract.check.run import check_spec

ROOT = Path(__file__).resolve().parents[1]
PEAK = """
import json, resource, sys
from contract.files.checkpoint import Checkpoint
found = Checkpoint.open(sys.argv[1])
print(json.dumps([len(found.tensors), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


class Entry(msgspec.Struct, gc=False):
    """One entry as the yardstick decodes it: typed, and believed. (``__metadata__`` decodes as one too, without fields.)"""

    dtype: str = ""
    shape: list[int] = []
    data_offsets: list[int] = []


def decode_headers(shards: list[Path]) -> list[Any]:
    """Read and decode every header with msgspec, check nothing."""
    decoder = msgspec.json.Decoder(dict[str, Entry])
    found = []
    for shard in shards:
        with open(shard, "rb") as file:
            found.append(decoder.decode(file.read(int.from_bytes(file.read(8), "little"))))
    return found


def open_with_library(shards: list[Path]) -> list[Any]:
    """Open every shard with the safetensors library and list its names."""
    found = []
    for shard in shards:
        with safe_open(shard, framework="np") as file:
            found.append(file.keys())
    return found


def small_contract(folder: Path, size: big_checkpoint.Size) -> Path:
    """A small drafter and its contract, whose target has the layers, width and vocabulary of the big checkpoint."""
    sys.path.insert(0, str(ROOT))
    from dataclasses import replace

    from tests.factory import pair, tiny

    small = pair(
        replace(tiny(), target_vocab_size=size.vocab, target_hidden_size=size.hidden), target_layers=size.layers, boundaries=(0, 1, 2)
    )
    small.contract["target"]["model_type"] = "kimi_k25"
    return small.write(folder)


def run(outcome: Outcome, options: argparse.Namespace) -> None:
    """Make the checkpoint, then measure."""
    size = big_checkpoint.TINY if outcome.scale == "tiny" else big_checkpoint.FULL
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "target"
        count, apparent = big_checkpoint.write(folder, size)
        spec = small_contract(Path(place) / "drafter", size)
        shards = sorted(folder.glob("*.safetensors"))
        outcome.notes.append(f"{len(shards)} shards, {count} tensors, {apparent / 1e9:.1f} GB apparent")
        found = check_spec(spec, target=folder)
        outcome.notes.append(f"check: {found.verdict.value}, {len(found.checks)} checks")
        times = interleaved(
            {
                "open": lambda: Checkpoint.open(folder),
                "check": lambda: check_spec(spec, target=folder),
                "msgspec": lambda: decode_headers(shards),
                "safe_open": lambda: open_with_library(shards),
            },
            options.runs or (1 if outcome.scale == "tiny" else 9),
        )
        record(outcome, times)
        for ours in ("open", "check"):
            outcome.bound(f"{ours} / decoding the headers with msgspec", paired(times[ours], times["msgspec"]), 4.0)
            outcome.bound(f"{ours} / opening the shards with safe_open", paired(times[ours], times["safe_open"]), 1.5)
        tensors, peak = child_json(PEAK, str(folder))
        assert tensors == count
        outcome.bound("peak memory of a process that opens it", peak, 400.0, " MiB")


TITLE = "static check of a 1-trillion-parameter checkpoint"

if __name__ == "__main__":
    raise SystemExit(main(TITLE, run))
