"""Run every target for some seconds: ``python -m tools.fuzz [--seconds 20] [TARGET...]``.

With Atheris (``pip install atheris``) each target is a process of its own under coverage guidance. Without, the corpus is mutated at
random, which finds less. An input that breaks a target is written to ``--crashes``, and the exit code is 1: put it under
tests/fuzz_corpus/TARGET, with the next number, where the tests repeat it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.fuzz.targets import TARGETS

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "fuzz_corpus"
LARGEST = 4096
"""Bytes of an input."""


def corpus(target: str) -> list[bytes]:
    """The committed inputs of a target."""
    return [file.read_bytes() for file in sorted((CORPUS / target).iterdir())]


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The data with a few pieces cut, doubled, exchanged or flipped."""
    for _ in range(rng.randint(1, 4)):
        at, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        other = rng.choice(others)
        start = rng.randint(0, len(other))
        piece = rng.choice([b"", bytes([rng.randrange(256)]), other[start : start + rng.randint(0, 40)], data[at:end] * 2, b"\\", b'"'])
        data = rng.choice([data[:at] + piece + data[end:], data[:at] + piece + data[at:]])
    return data[:LARGEST]


def at_random(target: str, seconds: float, crashes: Path) -> int:
    """Mutate the corpus for some seconds; how many inputs broke the target (at most one is looked for)."""
    seeds, rng, tried = corpus(target), random.Random(0), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(rng.choice(seeds), seeds, rng)
        tried += 1
        try:
            TARGETS[target](data)
        except Exception as error:  # noqa: BLE001 -- any exception that a target lets out is a find
            place = crashes / target / f"crash-{hashlib.sha256(data).hexdigest()[:12]}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            print(f"{target}: {type(error).__name__}: {error}; input kept as {place}")
            return 1
    print(f"{target}: {tried} inputs, none broke it")
    return 0


def under_atheris(target: str, seconds: float, crashes: Path) -> int:
    """Run a target under Atheris in a process of its own; 1 if an input broke it."""
    place = crashes / target
    place.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "tools.fuzz.atheris_run", target, f"-max_total_time={int(seconds)}", f"-max_len={LARGEST}"]
    done = subprocess.run([*argv, f"-artifact_prefix={place}/", "-verbosity=0", "-rss_limit_mb=3072", str(CORPUS / target)], check=False)
    print(f"{target}: {'an input broke it, see ' + str(place) if done.returncode else 'none broke it'} (Atheris, {int(seconds)} s)")
    return int(done.returncode != 0)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 1 if any target broke."""
    parser = argparse.ArgumentParser(prog="tools.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each target")
    parser.add_argument("--crashes", type=Path, default=Path(".fuzz"), help="where inputs that break a target go")
    parser.add_argument("--random", action="store_true", help="without Atheris even if it is installed")
    options = parser.parse_args(argv)
    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    guided = importlib.util.find_spec("atheris") is not None and not options.random
    body = under_atheris if guided else at_random
    broken = sum(body(name, options.seconds, options.crashes) for name in options.targets or TARGETS)
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
