"""Completion: the scripts are valid, and a real bash completes with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from cli.fake import FakeKind

Run = Callable[..., Ran]


@pytest.mark.parametrize(
    ("shell", "first"), [("bash", "_contract_completion() {"), ("zsh", "#compdef contract"), ("fish", "function _contract")]
)
def test_scripts(run_line: Run, kind: FakeKind, shell: str, first: str) -> None:
    ran = run_line("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(first), "zsh wants #compdef in the first line"
    assert f"{shell}_complete" in ran.out
    assert "\\x" not in ran.out, "nothing in a script had to be escaped"


@pytest.mark.parametrize("argv", [("completion",), ("completion", "tcsh")])
def test_other_shells(run_line: Run, kind: FakeKind, argv: tuple[str, ...]) -> None:
    assert run_line(*argv).code == 2


def _complete(words: str, index: int, folder: Path) -> list[str]:
    """What bash offers after the words, with the script as a user installs it."""
    (folder / "contract").write_text(f"#!/bin/sh\nexec '{sys.executable}' -m contract \"$@\"\n")
    (folder / "contract").chmod(0o755)
    script = f"""
        source <(contract completion bash)
        COMP_WORDS=({words}); COMP_CWORD={index}
        _contract_completion contract
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environ, cwd=folder, check=True)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes(tmp_path: Path) -> None:
    assert _complete("contract che", 1, tmp_path) == ["check"]
    assert _complete("contract check --integrity d", 3, tmp_path) == ["digests"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("contract check dra", "file"),
        ("contract check drafter/contract.yaml --target tar", "file"),
        ("contract verify drafter/contract.yaml --capture cap", "file"),
        ("contract explain states.rec", None),
        ("contract check drafter/contract.yaml --integrity d", "plain"),
    ],
)
def test_places_are_left_to_the_shell_which_knows_its_files(words: str, kind: str | None) -> None:
    environ = {
        **os.environ,
        "_CONTRACT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    ran = subprocess.run([sys.executable, "-m", "contract"], capture_output=True, text=True, env=environ, check=True)
    assert [line.partition(",")[0] for line in ran.stdout.split("\n") if line] == ([] if kind is None else [kind])
