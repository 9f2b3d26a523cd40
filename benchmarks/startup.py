"""Speed item 6: what the command line costs beyond the interpreter's own start, and that a digest reads every byte once.

Whole processes, from start to exit, in turn with an interpreter that does nothing. ``check`` is that of the embedded pair's small drafter.
Judged is processor time, which for one thread and files in the cache is the wall clock of a machine that has nothing else to do; the wall
clock of this one is printed beside it.
Bytes read are counted by the kernel (/proc/PID/io) for a check at ``--integrity digests``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from measure import Outcome, child_json, child_seconds, main

DATA = Path(__file__).resolve().parents[1] / "eagle3_contract" / "demo" / "data"
SPEC = DATA / "drafter-a" / "contract.yaml"
BYTES = """
import json, sys
from contract.files.checkpoint import Checkpoint
from contract.files.tensors import HashingScan

def read_so_far():
    return int(dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())["rchar"])

checkpoint = Checkpoint.open(sys.argv[1])
before = read_so_far()
for shard in checkpoint.shards:
    scan = HashingScan(shard)
    for piece in scan:
        len(piece.data)
    assert len(scan.sha256) == 64
print(json.dumps(read_so_far() - before))
"""


def command(*arguments: str) -> list[str]:
    """A command line of this project, in a fresh interpreter."""
    return [sys.executable, "-m", "contract", *arguments]


def run(outcome: Outcome, options: argparse.Namespace) -> None:
    """Start each process in turn."""
    runs = options.runs or (1 if outcome.scale == "tiny" else 15)
    lines = {
        "an interpreter that does nothing": [sys.executable, "-c", "pass"],
        "--help": command("--help"),
        "check": command("check", str(SPEC)),
        "check --target": command("check", str(SPEC), "--target", str(DATA / "target")),
    }
    seconds: dict[str, list[float]] = {name: [] for name in lines}
    walls: dict[str, list[float]] = {name: [] for name in lines}
    with tempfile.TemporaryDirectory() as cache:
        # Byte code as an installed package has it, even where the environment forbids to write any; the first runs make it.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": cache}
        for argv in lines.values():
            child_seconds(argv, env=env)
        for _ in range(runs):
            for name, argv in lines.items():
                wall, taken, code = child_seconds(argv, env=env)
                assert code in (0, 1, 3), f"{name} ended with {code}"
                seconds[name].append(taken)
                walls[name].append(wall)
    empty = seconds.pop("an interpreter that does nothing")
    outcome.figure("an interpreter that does nothing", 1000 * median(empty), "ms")
    for name, wall in walls.items():
        outcome.figure(f"{name}, wall clock here", 1000 * median(wall), "ms")
    for name, limit in (("--help", 0.15), ("check", 0.3), ("check --target", 0.3)):
        beyond = median(a - b for a, b in zip(seconds[name], empty, strict=True))
        outcome.bound(f"{name}, beyond the interpreter's start", beyond, limit, " s")
    with tempfile.TemporaryDirectory() as place:
        size = 1 << 16 if outcome.scale == "tiny" else 1 << 28
        from contract.files.writing import encode_header

        header, data = encode_header({"a": ("U8", (size // 2,)), "b": ("U8", (size - size // 2,))})
        file = Path(place) / "model.safetensors"
        with open(file, "wb") as out:
            out.write(header)
            out.truncate(len(header) + data)
        read = child_json(BYTES, place)
        outcome.bound("bytes read for values and digest / bytes of the file", read / file.stat().st_size, 1.01)


TITLE = "start-up of the command line, and bytes read for a digest"

if __name__ == "__main__":
    raise SystemExit(main(TITLE, run))
