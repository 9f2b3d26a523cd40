"""Opening files without leaving the folder that is verified.

Every component is opened relative to its parent with O_NOFOLLOW, only regular files are read, and O_NONBLOCK keeps a FIFO from
hanging the open. The one symlink that is followed is the one a Hugging Face cache makes: ``snapshots/<revision>/<file>`` to
``../../blobs/<etag>`` of the same repository (huggingface_hub, "Understand caching"). Reads are ``pread``, never a memory map:
a file that is cut off while it is read gives an error, not SIGBUS.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from contract.errors import InputRejected
from contract.files.names import shown
from contract.files.rules import rejected
from contract.findings import Where

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Bytes per read where a file is read in pieces."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BLOB_LINK = re.compile(r"((?:\.\./)+)blobs/([0-9A-Za-z][0-9A-Za-z._-]{0,127})")


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not change while a file is read."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class Backing(Protocol):
    """Where the bytes of a file are that is on this disk by name only (``contract.files.hub_mount``)."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill the view from ``offset`` on; all of it is within the file. Raises UserError."""


_BACKED: dict[tuple[int, int], Backing] = {}
"""Backings by device and inode of the empty file that stands for each. Whoever reads without asking here finds an empty file."""


def back(path: str | Path, backing: Backing) -> tuple[int, int]:
    """Let every ``OpenedFile`` of a path read from a backing, until ``unback`` with the key that is returned."""
    status = os.stat(path, follow_symlinks=False)
    key = (status.st_dev, status.st_ino)
    _BACKED[key] = backing
    return key


def unback(key: tuple[int, int]) -> None:
    """End what ``back`` began."""
    _BACKED.pop(key, None)


def size_of(status: os.stat_result) -> int:
    """Bytes of a file, those of its backing where it has one."""
    backing = _BACKED.get((status.st_dev, status.st_ino))
    return status.st_size if backing is None else backing.size


class OpenedFile:
    """A regular file, open for reading by ``pread``. A context manager; closing is the opener's duty.

    Attributes:
        name: as messages call it.
        fd: the descriptor.
        identity: device, inode, size and modification time when it was opened.
        links: number of hard links.
    """

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self.fd = fd
        status = os.fstat(fd)
        self.identity = _identity(status)
        self.links = status.st_nlink
        self._backing = _BACKED.get((status.st_dev, status.st_ino))

    @property
    def size(self) -> int:
        return self.identity.size

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        """Fill the buffer from ``offset`` on. Raises InputRejected if the file ends before."""
        view = memoryview(buffer).cast("B") if isinstance(buffer, bytearray) or buffer.format != "B" else buffer
        if self._backing is not None:
            if offset + len(view) > self.size:
                raise self.changed(f"it ends at byte {self.size}, {offset + len(view) - self.size} bytes too early")
            self._backing.read_into(offset, view)
            return
        done = 0
        while done < len(view):
            try:
                got = os.preadv(self.fd, [view[done:]], offset + done)
            except OSError as error:
                raise self._unreadable(error) from error
            if got == 0:
                raise self.changed(f"it ends at byte {offset + done}, {len(view) - done} bytes too early")
            done += got

    def read(self, offset: int, count: int) -> bytes:
        """``count`` bytes from ``offset`` on. Raises InputRejected if the file ends before."""
        try:
            data = os.pread(self.fd, count, offset) if self._backing is None else b""
        except OSError as error:
            raise self._unreadable(error) from error
        if len(data) == count:
            return data
        buffer = bytearray(count)
        self.read_into(offset, buffer)
        return bytes(buffer)

    def read_all(self) -> bytes:
        """The whole file, checked to be the same file before and after."""
        data = self.read(0, self.size)
        self.verify_unchanged()
        return data

    def sha256(self) -> str:
        """Hex digest of the whole file, read once."""
        digest, buffer, offset = hashlib.sha256(), bytearray(min(CHUNK_BYTES, max(self.size, 1))), 0
        while offset < self.size:
            view = memoryview(buffer)[: min(len(buffer), self.size - offset)]
            self.read_into(offset, view)
            digest.update(view)
            offset += len(view)
        self.verify_unchanged()
        return digest.hexdigest()

    def verify_unchanged(self) -> None:
        """Raise InputRejected (``files.changed-while-reading``) if the file is no longer the one that was opened."""
        now = _identity(os.fstat(self.fd))
        if now != self.identity:
            raise self.changed(f"size {self.identity.size} became {now.size}" if now.size != self.size else "it was written to")

    def changed(self, how: str) -> InputRejected:
        """The error for a file that changed while it was read."""
        return rejected("files.changed-while-reading", f"{self.name} changed while reading: {how}", where=Where(file=self.name))

    def _unreadable(self, error: OSError) -> InputRejected:
        return rejected("files.unreadable", f"{self.name}: {error.strerror}", where=Where(file=self.name))


def _identity(status: os.stat_result) -> Identity:
    return Identity(status.st_dev, status.st_ino, size_of(status), status.st_mtime_ns)


def open_path(path: str | Path) -> OpenedFile:
    """Open a file that the user named; a symlink in the path is the user's own choice and followed.

    Raises:
        InputRejected: it does not exist, cannot be read or is no regular file.
    """
    name = str(path)
    try:
        fd = os.open(path, (_FLAGS & ~os.O_NOFOLLOW))
    except (OSError, ValueError) as error:
        raise _open_error(name, error) from None
    return _regular(fd, name)


def _regular(fd: int, name: str) -> OpenedFile:
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise _not_regular(name, mode)
    return OpenedFile(fd, name)


def kind_of(mode: int) -> str:
    """The noun for a file mode."""
    for test, noun in (
        (stat.S_ISREG, "regular file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "symlink"),
        (stat.S_ISFIFO, "FIFO"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
    ):
        if test(mode):
            return noun
    return "special file"


def _not_regular(name: str, mode: int) -> InputRejected:
    return rejected("files.not-regular", f"{shown(name)} is a {kind_of(mode)}, not a regular file", where=Where(file=name))


def _open_error(name: str, error: OSError | ValueError) -> InputRejected:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return rejected("files.not-found", f"{shown(name)} does not exist", where=Where(file=name))
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        return rejected("files.not-regular", f"{shown(name)} is a socket or device, not a regular file", where=Where(file=name))
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return rejected("files.unreadable", f"{shown(name)}: {reason}", where=Where(file=name))


def relative_parts(name: str) -> list[str]:
    """The components of a relative name that stays inside its folder.

    Raises:
        InputRejected: ``files.path-escape`` for an absolute name, a backslash, ``.``, ``..``, an empty component or a control
            character.
    """
    parts = name.split("/")
    if not name or "\\" in name or any(p in ("", ".", "..") or len(p) > 255 for p in parts) or re.search(r"[\x00-\x1f\x7f]", name):
        raise rejected("files.path-escape", f"{shown(name)} is no plain name inside the folder", where=Where(file=shown(name)))
    return parts


@contextmanager
def _parent(folder_fd: int, parts: list[str], name: str) -> Iterator[int]:
    """Descriptor of the folder that holds the last component, every step opened without following symlinks."""
    fd = os.dup(folder_fd)
    try:
        for part in parts[:-1]:
            try:
                deeper = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as error:
                if stat.S_ISLNK(_mode(part, fd)):
                    raise rejected(
                        "files.symlink", f"{shown(name)} goes through the symlink {shown(part)}", where=Where(file=name)
                    ) from None
                raise _open_error(name, error) from None
            os.close(fd)
            fd = deeper
        yield fd
    finally:
        os.close(fd)


def _mode(name: str, dir_fd: int) -> int:
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
    except OSError:
        return 0


class Folder:
    """A folder, held by descriptor. A context manager.

    Attributes:
        path: as the user named it.
        fd: the descriptor.
    """

    def __init__(self, path: str | Path) -> None:
        """Raises InputRejected if the path is no readable folder."""
        self.path = Path(path)
        self.fd = -1  # __del__ runs even if the open fails
        try:
            self.fd = os.open(path, _FOLDER_FLAGS)
        except (OSError, ValueError) as error:
            raise _open_error(str(path), error) from None

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def open(self, name: str) -> OpenedFile:
        """Open a file by its name relative to the folder.

        Raises:
            InputRejected: the name leaves the folder, a symlink is in the way, or it is no readable regular file.
        """
        parts = relative_parts(name)
        with _parent(self.fd, parts, name) as parent:
            mode = _mode(parts[-1], parent)
            if stat.S_ISLNK(mode):
                return self._open_blob(name, parts, os.readlink(parts[-1], dir_fd=parent))
            if mode and not stat.S_ISREG(mode):
                raise _not_regular(name, mode)
            return _open_regular(parts[-1], parent, name)

    def _open_blob(self, name: str, parts: list[str], link: str) -> OpenedFile:
        """Follow ``snapshots/<revision>/<file> -> ../../blobs/<etag>``; anything else is refused."""
        match = _BLOB_LINK.fullmatch(link)
        if match is None or len(match.group(1)) != 3 * (len(parts) + 1) or not self._is_snapshot():
            outside = os.path.isabs(link) or ".." in link.split("/")
            raise rejected(
                "files.path-escape" if outside else "files.symlink",
                f"{shown(name)} is a symlink to {shown(link)}" + (", out of the folder" if outside else ""),
                where=Where(file=name),
            )
        try:
            # ".." of an open descriptor is the physical parent: no symlink of the user's path is in the way.
            blobs = os.open("../../blobs", _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=self.fd)
        except OSError as error:
            raise _open_error(name, error) from None
        try:
            return _open_regular(match.group(2), blobs, name)
        finally:
            os.close(blobs)

    def _is_snapshot(self) -> bool:
        """True if the folder is ``snapshots/<revision>`` beside a ``blobs`` folder."""
        try:
            here, snapshots = os.fstat(self.fd), os.stat("../../snapshots", dir_fd=self.fd, follow_symlinks=False)
            parent = os.stat("..", dir_fd=self.fd)
        except OSError:
            return False
        return stat.S_ISDIR(here.st_mode) and (parent.st_dev, parent.st_ino) == (snapshots.st_dev, snapshots.st_ino)


def _open_regular(name: str, dir_fd: int, shown_name: str) -> OpenedFile:
    try:
        fd = os.open(name, _FLAGS, dir_fd=dir_fd)
    except OSError as error:
        raise _open_error(shown_name, error) from None
    return _regular(fd, shown_name)
