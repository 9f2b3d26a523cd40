"""Writing files whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from contract.errors import InputRejected
from contract.files.names import shown
from contract.files.paths import kind_of
from contract.files.rules import rejected
from contract.findings import Where


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that replaces ``path`` when the block ends without an exception, and leaves no trace otherwise.

    The bytes go to a temporary file in the same folder, reach the disk, and take the name in one step: at any moment the
    name holds the old file or the whole new one.

    What is there and is no regular file (a device, a FIFO, a socket, a folder) is never replaced, nor is a link to such, nor one of
    the links in ``/dev`` that stand for the open files of this process. A link to a regular file is replaced by the new file.

    Raises:
        InputRejected: ``files.write-failed`` (disk full, no permission, no folder, no place for a file).
    """
    target = Path(path)
    temporary: str | None = None
    _require_replaceable(target)
    try:
        fd, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        raise rejected("files.write-failed", f"{target}: {error.strerror or error}", where=Where(file=str(target))) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def atomic_write(path: str | Path, data: bytes | bytearray | memoryview | str) -> None:
    """Write a whole file, text as UTF-8. Raises like ``atomic_writer``."""
    with atomic_writer(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def _require_replaceable(target: Path) -> None:
    try:
        opened = target.is_symlink() and os.readlink(target).startswith("/proc/")  # /dev/stdout
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _refused(target, reason) from error
    if opened or not stat.S_ISREG(mode):
        raise _refused(target, f"a {'link to an open file' if opened else kind_of(mode)} is there, which is not replaced")


def _refused(target: Path, reason: str) -> InputRejected:
    return rejected("files.write-failed", f"{shown(str(target), 1024)}: {reason}", where=Where(file=shown(str(target), 1024)))


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
