"""What every benchmark here shares: interleaved runs, medians, paired ratios, bounds, peak memory, and one command line.

Two candidates run in turn, A B A B, and their ratio is taken pair by pair: a machine that slows down meanwhile moves both. Times are wall
clock. A bound is judged at full scale only; ``--scale tiny`` is for the tests, which keep the scripts from rotting.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Bound:
    """A ratio (or an absolute figure) and the most, or the least, that it may be. ``met`` is None where nothing is judged."""

    name: str
    value: float
    limit: float
    unit: str
    at_most: bool
    met: bool | None


@dataclass
class Outcome:
    """What one script measured."""

    title: str
    scale: str
    figures: dict[str, str] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def figure(self, name: str, value: float, unit: str) -> None:
        """A figure that nothing is demanded of."""
        self.figures[name] = f"{value:.4g} {unit}"

    def bound(self, name: str, value: float, limit: float, unit: str = "x", *, at_most: bool = True) -> None:
        """A figure with a bound."""
        met = None if self.scale == "tiny" else (value <= limit if at_most else value >= limit)
        self.bounds.append(Bound(name, value, limit, unit, at_most, met))

    def text(self) -> str:
        """For people."""
        lines = [f"{self.title} ({self.scale} scale; {platform.machine()}, {os.cpu_count()} processors)"]
        lines += [f"  {name:<58} {value}" for name, value in self.figures.items()]
        for b in self.bounds:
            verdict = {None: "not judged", True: "PASS", False: "FAIL"}[b.met]
            sign = "at most" if b.at_most else "at least"
            lines.append(f"  {b.name:<58} {b.value:.3g}{b.unit} ({sign} {b.limit:g}{b.unit}) {verdict}")
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def interleaved(candidates: Mapping[str, Callable[[], object]], runs: int, *, warmup: int = 1) -> dict[str, list[float]]:
    """Seconds of each run of each candidate, one run of each in turn."""
    for _ in range(warmup):
        for body in candidates.values():
            body()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(runs):
        for name, body in candidates.items():
            gc.collect()
            start = time.perf_counter()
            kept = body()
            times[name].append(time.perf_counter() - start)
            del kept
    return times


def paired(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the ratios of runs that followed each other."""
    return median(a / b for a, b in zip(above, below, strict=True))


def record(outcome: Outcome, times: Mapping[str, Sequence[float]]) -> None:
    """The medians of ``interleaved`` as figures."""
    for name, seconds in times.items():
        outcome.figure(name, median(seconds) * 1000, "ms")


def child_seconds(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> tuple[float, float, int]:
    """Wall seconds and processor seconds of a whole process, and its exit code. What it prints is thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=None if env is None else dict(env), check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


def child_json(code: str, *arguments: str) -> Any:
    """Run Python code in a process of its own and return the JSON of its last line."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak_mib() -> float:
    """Largest resident size of this process so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(title: str, body: Callable[[Outcome, argparse.Namespace], None], argv: Sequence[str] | None = None) -> int:
    """Parse the shared options, run a benchmark, print it; 1 if a bound was missed."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--scale", choices=["full", "tiny"], default="full", help="tiny: seconds, for the tests; judges nothing")
    parser.add_argument("--runs", type=int, default=None, help="measured runs of each candidate (default: the script's own)")
    parser.add_argument("--samples", type=int, default=10_000, help="verify.py: how many samples")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    outcome = Outcome(title, options.scale)
    body(outcome, options)
    if options.json:
        print(json.dumps(asdict(outcome), indent=1))
    else:
        print(outcome.text())
    return int(any(b.met is False for b in outcome.bounds))
