"""A contract that is compared: a file, or ``git:REV:path`` at a revision of the repository of the working directory."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from contextlib import suppress
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
_PIECE_BYTES: Final = 64 * 1024
"""Bytes per read of a pipe, and what is kept of git's messages."""
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
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        ) as git:
            try:
                return _read(git, source, limits)
            finally:
                _kill(git)
    except OSError as error:
        raise ToolError(f"git cannot be run: {error.strerror or error}", rule=rules.GIT_MISSING.id, fix=rules.GIT_MISSING.remedy) from error


def _kill(git: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started, which may hold its pipes."""
    if git.returncode is None:  # not waited for yet, so that the number is still its own
        with suppress(ProcessLookupError):
            os.killpg(git.pid, signal.SIGKILL)


def _read(git: subprocess.Popen[bytes], source: str, limits: Limits) -> bytes:
    """What git writes, until it has closed both pipes and ended; no more than the limit ``yaml_bytes``, and no longer than ``SECONDS``."""
    assert git.stdout is not None
    assert git.stderr is not None
    end = time.monotonic() + SECONDS
    data, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(git.stdout, selectors.EVENT_READ, data)
        waiting.register(git.stderr, selectors.EVENT_READ, said)
        while waiting.get_map():
            ready = waiting.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise _failed(source, f"no answer within {SECONDS} s")
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                if not piece:
                    waiting.unregister(key.fileobj)
                elif key.data is data:
                    data += piece
                    within_size(bytes(data[: limits.yaml_bytes + 1]), len(data), file=source, limits=limits)
                else:
                    said += piece[: max(0, _PIECE_BYTES - len(said))]
            if time.monotonic() > end:
                raise _failed(source, f"no answer within {SECONDS} s")
    try:
        git.wait(timeout=max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _failed(source, f"no answer within {SECONDS} s") from None
    if git.returncode:
        raise _failed(source, said.decode(errors="replace").strip().partition("\n")[0] or f"exit code {git.returncode}")
    return bytes(data)


def _failed(source: str, reason: str) -> UserError:
    return ToolError(f"git cannot give {shown(source)}: {shown(reason, 300)}", rule=rules.GIT_FAILED.id, fix=rules.GIT_FAILED.remedy)
