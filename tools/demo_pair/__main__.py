"""Makes the pair from nothing: `python -m tools.demo_pair --out DIR`. The result is DIR/data.

Each step runs in a process of its own with one thread; the two drafters run side by side.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tools.demo_pair.settings import RECIPES, SCALES


def _start(step: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", f"tools.demo_pair.{step}", *arguments])


def _finish(step: str, process: subprocess.Popen[bytes]) -> None:
    if process.wait() != 0:
        sys.exit(f"{step} ended with {process.returncode}")


def main() -> None:
    """Runs corpus, target, generate, both drafters, package and contract, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    common = ("--out", str(out), "--scale", arguments.scale)
    rounds: list[dict[str, tuple[str, ...]]] = [
        {"corpus": ("corpus", *common)},
        {"target": ("target", *common)},
        {"generate": ("generate", *common)},
        {f"drafter {name}": ("drafter", *common, "--name", name) for name in sorted(RECIPES)},
        {"package": ("package", *common)},
        {"contract": ("contract", "--data", str(out / "data"))},
    ]
    for together in rounds:
        started = time.monotonic()
        running = {label: _start(*command) for label, command in together.items()}
        for label, process in running.items():
            _finish(label, process)
        print(f"{', '.join(together)}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    if arguments.scale == "full":
        continuations = str(out / "heldout.safetensors")
        _finish("evaluate", _start("evaluate", "--pair", str(out / "data"), "--continuations", continuations))


if __name__ == "__main__":
    main()
