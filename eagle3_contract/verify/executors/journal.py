"""What was measured, written down sample by sample, so that a run that was ended can go on.

A journal is JSON, a line each. The first line names the run (a digest of everything that decides a count: contract, weights, target,
versions); every other line is one sample with the digest of its file. A line that was torn by the end of the run is dropped; anything
else that is not as it should be is an error, for a wrong count must not pass as a measured one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from contract.errors import InputRejected
from contract.findings import Where
from eagle3_contract.verify.executors.result import SampleResult

MAX_BYTES: Final = 1 << 30
"""A journal of a million samples has some 300 MB."""


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line."""

    format: Literal["eagle3-contract-journal"] = "eagle3-contract-journal"
    format_version: Literal[1] = 1
    run: str


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sample."""

    digest: str
    result: SampleResult


class Journal:
    """A journal that is open for more lines. A context manager.

    Args:
        path: the file; made if it is not there.
        run: digest of everything that decides a count.

    Raises:
        InputRejected: ``verify.journal``: it is of another run, damaged, or cannot be read or written.
    """

    def __init__(self, path: str | Path, run: str) -> None:
        self._path = Path(path)
        self._known: dict[str, Line] = {}
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._rejected(error.strerror or str(error)) from error
        try:
            self._open(run)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def known(self) -> Mapping[str, Line]:
        """Measured samples by name."""
        return self._known

    def add(self, digest: str, result: SampleResult) -> None:
        """Write one sample down: one write of a whole line."""
        self._write(msgspec.json.encode(Line(digest=digest, result=result)) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)

    def _open(self, run: str) -> None:
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise self._rejected("it is no regular file")
        if status.st_size > MAX_BYTES:
            raise self._rejected(f"it has {status.st_size} bytes, more than {MAX_BYTES}")
        data = os.pread(self._fd, status.st_size, 0)
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        if lines:
            self._read(lines, run)
        elif data and not data.startswith(b'{"format":"eagle3-contract-journal"'[: len(data)]):
            raise self._rejected("it is no journal")
        # What follows the last line end was torn; the next line must not be glued to it.
        os.ftruncate(self._fd, whole)
        if not lines:
            self._write(msgspec.json.encode(Head(run=run)) + b"\n")

    def _read(self, lines: list[bytes], run: str) -> None:
        try:
            head = msgspec.json.decode(lines[0], type=Head)
        except msgspec.MsgspecError as error:
            raise self._rejected(f"it is no journal: {error}") from error
        if head.run != run:
            raise self._rejected("it is of another run: the contract, the drafter, the target or a version is not what it was")
        for number, text in enumerate(lines[1:], 2):
            try:
                line = msgspec.json.decode(text, type=Line)
            except msgspec.MsgspecError as error:
                raise self._rejected(f"it is damaged: {error}", line=number) from error
            self._known[line.result.name] = line

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise self._rejected(error.strerror or str(error)) from error

    def _rejected(self, reason: str, line: int | None = None) -> InputRejected:
        return InputRejected(
            f"{self._path} cannot be gone on with: {reason}",
            rule="verify.journal",
            fix="Name another file with --resume, or delete this one to measure everything again.",
            where=Where(file=str(self._path), line=line),
        )
