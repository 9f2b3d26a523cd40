"""A contract that is compared: a file, or ``git:REV:path`` at a revision of the repository of the working directory."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

from contract.errors import InputRejected, ToolError, UsageError, UserError
from contract.files.names import shown
from contract.files.paths import relative_parts
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source import Document, parse_yaml, read_yaml
from contract.source.header import read_header
from contract.source.text import within_size
from contract.structs import load_typed
from eagle3_contract.diff import rules
from eagle3_contract.model.load import KIND
from eagle3_contract.model.spec import Contract

GIT: Final = "git:"
SECONDS: Final = 60
"""Wall clock of one call of git."""
_REVISION: Final = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@{}^~./+-]{0,255}")
"""What a revision is spelt with. It starts with no dash, so that git can take it for no option, and has no colon."""
_ENVIRONMENT: Final = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
"""Messages in English; no question, no lock, and nothing fetched from a network."""


def read_contract(source: str, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Contract, Document]:
    """One side of a comparison, typed, and its document.

    Raises:
        UsageError: ``diff.git-source``.
        ToolError: ``diff.git-missing``, ``diff.git-failed``.
        InputRejected: it cannot be read, is no contract of this kind, or a ``SpecInvalid`` with every problem.
    """
    if source.startswith(GIT):
        revision, path = split(source)
        document = parse_yaml(_show(revision, path, source, limits), file=source, limits=limits)
    else:
        document = read_yaml(source, limits=limits)
    read_header(document, kinds=(KIND,))
    return load_typed(document, Contract), document


def split(source: str) -> tuple[str, str]:
    """Revision and path of ``git:REV:path``. Raises UsageError (``diff.git-source``)."""
    revision, colon, path = source.removeprefix(GIT).partition(":")
    if not colon or not _REVISION.fullmatch(revision) or not _contained(path.removeprefix("./")):
        raise UsageError(f"{shown(source)} names no contract in git", rule=rules.GIT_SOURCE.id, fix=rules.GIT_SOURCE.remedy)
    return revision, path


def _contained(path: str) -> bool:
    try:
        relative_parts(path)
    except InputRejected:
        return False
    return ":" not in path


def _show(revision: str, path: str, source: str, limits: Limits) -> bytes:
    """The file's bytes. ``cat-file blob`` is what ``git show`` does for a file, without filters, pager or a folder's listing."""
    argv = ["git", "--no-pager", "--literal-pathspecs", "cat-file", "blob", f"{revision}:{path}"]
    try:
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **_ENVIRONMENT}
        ) as git:
            try:
                return _read(git, source, limits)
            finally:
                git.kill()
    except OSError as error:
        raise ToolError(f"git cannot be run: {error.strerror or error}", rule=rules.GIT_MISSING.id, fix=rules.GIT_MISSING.remedy) from error


def _read(git: subprocess.Popen[bytes], source: str, limits: Limits) -> bytes:
    assert git.stdout is not None
    assert git.stderr is not None
    data = git.stdout.read(limits.yaml_bytes + 1)
    within_size(data, len(data), file=source, limits=limits)
    try:
        _, said = git.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise _failed(source, f"no answer within {SECONDS} s") from None
    if git.returncode:
        raise _failed(source, said.decode(errors="replace").strip().partition("\n")[0] or f"exit code {git.returncode}")
    return data


def _failed(source: str, reason: str) -> UserError:
    return ToolError(f"git cannot give {shown(source)}: {shown(reason, 300)}", rule=rules.GIT_FAILED.id, fix=rules.GIT_FAILED.remedy)
