"""Speed item 5: ``verify`` over many samples, against the bare forward of the drafter on the same samples.

The samples are those of the embedded pair, under many names, each listed with its digest in a copy of the contract (up to as many as
``contract init`` lists). The bare forward is the
drafter's three steps on samples that are already in memory; ``verify`` also reads, hashes and checks every file, makes the target's tokens,
and scores. Its start-up is taken out by a run over eight samples. Memory is the peak of processes over a quarter of the samples and over
all.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import yaml
from measure import Outcome, child_json, main, paired

from contract.files.checkpoint import Checkpoint
from contract.requests import VerifyRequest
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import draft_steps
from eagle3_contract.init.samples import MANIFEST_LIMIT
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.trainers.samples import find_samples, load_sample
from eagle3_contract.verify.run import verify

DATA = Path(__file__).resolve().parents[1] / "eagle3_contract" / "demo" / "data"
SPEC = DATA / "drafter-a" / "contract.yaml"
SAMPLES = "samples"
CHILD = """
import json, resource, sys, time
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
import verify
start = time.perf_counter()
verify.verify_folder(sys.argv[2])
seconds = time.perf_counter() - start
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def verify_folder(folder: str | Path) -> int:
    """``contract verify`` over what ``many`` made; the number of samples that were measured, which is all of them."""
    listed = len(list((Path(folder) / SAMPLES).iterdir()))
    report = verify(VerifyRequest(spec=str(Path(folder) / SPEC.name), target=str(DATA / "target")))
    if report.exit_code != 0:
        raise SystemExit("\n".join(f"{c.rule}: {c.message}" for c in report.checks if c.status not in ("passed", "skipped")))
    figures = report.measurements["training_path"]
    if not isinstance(figures, dict) or figures["samples"] != listed:
        raise SystemExit(f"{folder}: not all of {listed} samples were measured")
    return listed


def many(folder: Path, count: int) -> Path:
    """The embedded drafter with the embedded samples under ``count`` names, and a contract that lists them."""
    held = sorted((DATA / "drafter-a" / SAMPLES).glob("*.safetensors"))
    shutil.copytree(DATA / "drafter-a", folder, ignore=shutil.ignore_patterns(SAMPLES))
    (folder / SAMPLES).mkdir()
    digests = [f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}" for file in held]
    contract = yaml.safe_load(SPEC.read_text(encoding="utf-8"))
    listed = contract["training"]["samples"]
    listed |= {"count": 0, "manifest": {}}
    # What was claimed stands for many texts. Eight of them, repeated, look like many and are not.
    contract["training"]["metrics"]["accuracy"] = {"unknown": "the samples are eight, repeated"}
    for i in range(count):
        name = f"sample-{i:05d}.safetensors"
        if count <= MANIFEST_LIMIT:
            listed["count"], listed["manifest"][name] = count, digests[i % len(held)]
        try:
            os.link(held[i % len(held)], folder / SAMPLES / name)
        except OSError:  # another file system
            shutil.copyfile(held[i % len(held)], folder / SAMPLES / name)
    (folder / SPEC.name).write_text(yaml.safe_dump(contract, sort_keys=False), encoding="utf-8")
    return folder


class Forward:
    """The bare forward over the embedded samples, in memory, as often as there are names."""

    def __init__(self) -> None:
        loaded = load_contract(SPEC)
        reading = resolve(loaded.contract)
        source, target = (CheckpointSource(Checkpoint.open(place)) for place in (loaded.drafter_folder, DATA / "target"))
        self.drafter = Drafter(reading.wiring, source, target_source=target)
        samples = [load_sample(file, allow_pickle=False) for file in find_samples(DATA / "drafter-a" / SAMPLES)]
        self.inputs = [(s.input_ids_T, torch.cat([x.float() for x in s.states_THk], dim=-1)) for s in samples]

    def run(self, count: int) -> None:
        """``count`` samples."""
        for i in range(count):
            ids_T, states_TC = self.inputs[i % len(self.inputs)]
            for step in draft_steps(self.drafter, ids_T, states_TC, steps=3):
                step.logits.argmax(dim=-1)


def timed(body: Callable[..., object], *arguments: object) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    body(*arguments)
    return time.perf_counter() - start


def together(folder: Path, processes: int) -> float:
    """Seconds that so many one-thread processes take, each over the whole folder, start-up left out: the slowest counts."""
    argv = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(folder)]
    running = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}) for _ in range(processes)
    ]
    return max(float(p.communicate()[0].strip().splitlines()[-1].strip("[]").split(",")[0]) for p in running)


def run(outcome: Outcome, options: argparse.Namespace) -> None:
    """Throughput in this process, memory and scaling in others."""
    torch.set_num_threads(1)
    tiny = outcome.scale == "tiny"
    count = 8 if tiny else options.samples
    runs = options.runs or (1 if tiny else 5)
    forward = Forward()
    with tempfile.TemporaryDirectory() as place:
        whole, few, quarter = (many(Path(place) / name, n) for name, n in (("whole", count), ("few", 8), ("quarter", count // 4)))
        part = min(count, 200)
        some = many(Path(place) / "some", part + 8)
        ours, bare = [], []
        for _ in range(runs):
            ours.append(timed(verify_folder, some) - timed(verify_folder, few))
            bare.append(timed(forward.run, part))
        outcome.figure("verify, each sample", 1000 * median(ours) / part, "ms")
        outcome.figure("bare forward, each sample", 1000 * median(bare) / part, "ms")
        outcome.bound("verify / bare forward", paired(ours, bare), 1.3)
        seconds, large = child_json(CHILD, str(Path(__file__).parent), str(whole))
        _, small = (seconds, large) if tiny else child_json(CHILD, str(Path(__file__).parent), str(quarter))
        outcome.figure(f"verify over {count} samples", seconds, "s")
        outcome.figure("its peak memory", large, "MiB")
        outcome.bound(f"peak over {count} samples / over {count // 4}", large / small, 1.1)
        speedups = []
        for _ in range(runs):
            alone = together(some, 1)
            speedups.append(2 * alone / (alone if tiny else together(some, 2)))
        outcome.bound("two processes / one, samples a second", median(speedups), 1.6, at_most=False)
        outcome.notes.append(f"{part} samples a run, {runs} runs")


TITLE = "verify over many samples"

if __name__ == "__main__":
    raise SystemExit(main(TITLE, run))
