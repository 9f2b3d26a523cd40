"""The tutorial's commands are run, one after the other, in an empty folder; each must end as its comment says (0 without one)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"#\s*exit (\d)\s*$")


def commands(text: str) -> list[tuple[str, int]]:
    """Commands with their exit codes; a here-document belongs to the command that it feeds."""
    found: list[tuple[str, int]] = []
    for block in BLOCK.findall(text):
        lines = iter(block.splitlines())
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            code = EXIT.search(line)
            command = line
            if "<<'EOF'" in line:
                for part in lines:
                    command += "\n" + part
                    if part == "EOF":
                        break
            found.append((command, int(code[1]) if code else 0))
    return found


def test_tutorial(tmp_path: Path) -> None:
    steps = commands((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert len(steps) > 10
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    folder = tmp_path
    for command, code in steps:
        if command.startswith("cd "):
            folder = folder / command.split()[1]
            continue
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
