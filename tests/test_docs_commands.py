"""Every command in the README and the docs is run, in a folder as the reader has it; each must end as its comment says (0 without one).

The pages under docs/integrations have a test of their own (tests/integrations/test_docs.py). Blocks marked ``sh`` are run; usage lines and
commands in running text, which have placeholders, are held against the command line's own commands and options.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from click import Context

from contract.cli.main import cli

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "eagle3_contract" / "demo" / "data"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"#\s*exit (\d)\s*$")
PLAIN = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(contract [^`\n]+)`")
WALKS: Final = ("docs/tutorial.md", "docs/why-is-my-acceptance-low.md")
"""Pages that are walked through from top to bottom, in one folder."""
LIVE: Final = ("docs/live-capture.md", "docs/engines/sglang.md", "docs/engines/vllm.md")
"""Pages whose commands need an engine."""
PAGES: Final = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
NOT_RUN: Final = {
    "make ": "sets up an environment of its own; CI runs it",
    "pip install ": "needs the published package and an index",
}
"""Starts of commands in the README that are not run here, and why."""


def commands(text: str) -> list[tuple[str, int]]:
    """Commands with their exit codes; a here-document belongs to the command that it feeds, a continued line to the one it continues."""
    found: list[tuple[str, int]] = []
    for block in BLOCK.findall(text):
        lines = iter(block.replace("\\\n", " ").splitlines())
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


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False)


QUOTED = re.compile(r"(['\"]).*?(\1|$)")


@pytest.mark.parametrize("page", WALKS)
def test_walk(page: str, tmp_path: Path) -> None:
    steps = commands((ROOT / page).read_text(encoding="utf-8"))
    folder = tmp_path
    if page != "docs/tutorial.md":
        # The tutorial alone makes the folder by `contract demo`, which takes a while.
        folder = tmp_path / "demo"
        shutil.copytree(DEMO, folder)
    for command, code in steps:
        if command.startswith("cd "):
            folder = folder / command.split()[1]
            continue
        done = run(command, folder)
        assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    assert len(steps) > 8


def test_readme(tmp_path: Path) -> None:
    shutil.copytree(DEMO / "drafter-a", tmp_path / "drafter")
    shutil.copytree(DEMO / "target", tmp_path / "target")
    server = tmp_path / "bin" / "python"
    server.parent.mkdir()
    server.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/started"\n')
    server.chmod(0o755)
    steps = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    for start in NOT_RUN:
        assert any(command.startswith(start) for command, _ in steps), f"{start!r} is in the README no more"
    for command, code in steps:
        if not command.startswith(tuple(NOT_RUN)):
            done = run(f'PATH="{server.parent}:$PATH"; {command}', tmp_path)
            assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    assert (tmp_path / "started").read_text().startswith("-m sglang.launch_server")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_said_of_a_command_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for block in PLAIN.findall(text) for line in block.splitlines()]
    for said in [*INLINE.findall(text), *(line for line in lines if line.startswith("contract "))]:
        words = QUOTED.sub("", said.partition(" -- ")[0]).split()  # within quotes stands an engine's command line
        name = words[1].rstrip(",.;")
        if name.startswith(("-", ".", "/", "[")):
            continue
        command = cli.get_command(Context(cli), name)
        assert command is not None, said
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
        options = {option for word in words[2:] for option in re.findall(r"(?:^|(?<=\[))--?[a-z][a-z-]*", word)}
        assert options <= known, said


def test_every_page_with_a_block_is_walked() -> None:
    with_blocks = {str(p.relative_to(ROOT)) for p in PAGES if BLOCK.search(p.read_text(encoding="utf-8"))}
    integrations = {name for name in with_blocks if name.startswith("docs/integrations/")}
    assert with_blocks - integrations == {*WALKS, *LIVE, "README.md"}


@pytest.mark.parametrize("page", LIVE)
def test_a_command_with_an_engine_is_complete(page: str) -> None:
    """Without an engine nothing is run, but every option and value is parsed as it would be; `make test-engines` runs engines."""
    parsed = 0
    for line, _ in commands((ROOT / page).read_text(encoding="utf-8")):
        words = shlex.split(line)
        if words[0] == "contract":
            command = cli.get_command(Context(cli), words[1])
            assert command is not None, line
            command.make_context(words[1], words[2:])
            parsed += 1
    assert parsed
