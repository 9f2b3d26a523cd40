"""Contracts at a revision: read through git, and nothing but a file of the repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from factory import pair, write_contract
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected, LimitExceeded, ToolError, UsageError
from contract.findings import ExitCode
from contract.limits import DEFAULT_LIMITS
from contract.requests import DiffRequest
from eagle3_contract.diff import source as git_source
from eagle3_contract.diff.run import diff
from eagle3_contract.diff.source import read_contract, split


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two revisions of specs/contract.yaml, the second with another feedback; the working directory is the top."""
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        monkeypatch.delenv(name)
    contract = pair().contract
    (tmp_path / "specs").mkdir()
    git(tmp_path, "init")
    for feedback in ("pre_norm", "post_norm"):
        contract["wiring"]["feedback"] = feedback
        write_contract(tmp_path / "specs" / "contract.yaml", contract)
        git(tmp_path, "add", "specs")
        git(tmp_path, "commit", "-m", feedback)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_revisions(repository: Path) -> None:
    report = diff(DiffRequest(old="git:HEAD~1:specs/contract.yaml", new="specs/contract.yaml"))
    assert report.exit_code is ExitCode.VIOLATED
    (change,) = [c for c in report.checks if c.rule == "diff.wiring"]
    assert change.evidence["old"]["file"] == "git:HEAD~1:specs/contract.yaml"
    same = diff(DiffRequest(old="git:HEAD:specs/contract.yaml", new="git:main:specs/contract.yaml"))
    assert same.exit_code is ExitCode.KEPT


def test_path_relative_to_the_working_directory(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "specs")
    assert read_contract("git:HEAD:./contract.yaml")[0] == read_contract("git:HEAD:specs/contract.yaml")[0]


@pytest.mark.parametrize("source", ["git:absent:specs/contract.yaml", "git:HEAD:absent.yaml", "git:HEAD:specs"])
def test_what_git_has_not(repository: Path, source: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_contract(source)
    assert caught.value.rule == "diff.git-failed"
    assert "fatal" in caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "git:",
        "git:HEAD",
        "git:HEAD:",
        "git::contract.yaml",
        "git:--help:contract.yaml",
        "git:-p:contract.yaml",
        "git:HEAD:../contract.yaml",
        "git:HEAD:/etc/passwd",
        "git:HEAD:a:b",
        "git:HEAD;id:contract.yaml",
        "git:HEAD\n:contract.yaml",
        "git:$(id):contract.yaml",
    ],
)
def test_refused_spellings(source: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_contract(source)
    assert caught.value.rule == "diff.git-source"


@given(revision=st.text(max_size=12), path=st.text(max_size=12))
def test_no_spelling_gives_git_an_option_or_leaves_the_repository(revision: str, path: str) -> None:
    try:
        accepted, file = split(f"git:{revision}:{path}")
    except UsageError:
        return
    assert not accepted.startswith("-")
    assert ":" not in accepted
    assert not file.startswith("/")
    assert ".." not in file.split("/")


def test_not_in_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ToolError, match="not a git repository"):
        read_contract("git:HEAD:contract.yaml")


def test_no_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(ToolError) as caught:
        read_contract("git:HEAD:specs/contract.yaml")
    assert caught.value.rule == "diff.git-missing"


def test_a_huge_file_is_refused_before_it_is_read(repository: Path) -> None:
    with pytest.raises(LimitExceeded):
        read_contract("git:HEAD:specs/contract.yaml", limits=DEFAULT_LIMITS.lowered(yaml_bytes=100))


def test_a_link_in_the_repository_is_no_contract(repository: Path) -> None:
    (repository / "link.yaml").symlink_to("specs/contract.yaml")
    git(repository, "add", "link.yaml")
    git(repository, "commit", "-m", "link")
    with pytest.raises(InputRejected):
        read_contract("git:HEAD:link.yaml")


def test_a_git_that_waits_is_not_waited_for(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_contract("git:HEAD:specs/contract.yaml")
    monkeypatch.setattr(git_source, "SECONDS", 1)
    (repository / ".git" / "config").unlink()
    os.mkfifo(repository / ".git" / "config")
    with pytest.raises(ToolError, match="no answer within 1 s") as caught:
        read_contract("git:HEAD:specs/contract.yaml")
    assert caught.value.rule == "diff.git-failed"


@pytest.mark.parametrize("ends", ["exit 0", "wait", "while :; do echo more >&2; done"])
def test_what_git_started_ends_with_it(repository: Path, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    os.mkfifo(repository / "held")
    held = os.open(repository / "held", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(held, True)
    program = repository / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nsleep 60 9>held &\nprintf x\n{ends}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git_source, "SECONDS", 1)
    with pytest.raises(ToolError, match="no answer within 1 s"):
        read_contract("git:HEAD:specs/contract.yaml")
    assert os.read(held, 1) == b"", "whoever held the other end is gone"
    os.close(held)


def test_a_git_that_writes_without_end_is_cut_off(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = repository / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(LimitExceeded):
        read_contract("git:HEAD:specs/contract.yaml")
