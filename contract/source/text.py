"""From a path to text: size cap, UTF-8, and no character that hides something from the reader."""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from contract.errors import LimitExceeded
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source.nodes import Mark
from contract.source.rules import reject

_UTF8_BOM: Final = b"\xef\xbb\xbf"
# YAML's printable characters (1.2.2 §5.1) without the line breaks that only YAML 1.1 knows (NEL, LS, PS), a lone CR, and the
# bidirectional controls that reorder a line on screen (CVE-2021-42574).
_HIDDEN: Final = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\r(?!\n)|[\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)
_TAB_INDENT: Final = re.compile(r"^ *\t", re.MULTILINE)
HIDDEN_IN_VALUE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
"""What an escape in a quoted scalar must not produce either."""


def read_bytes(path: str | os.PathLike[str], *, file: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The bytes of a regular file within the limit ``yaml_bytes``.

    Raises:
        InputRejected: contract.file-unreadable or contract.file-too-large.
    """
    try:
        # O_NONBLOCK: a FIFO must not hang the open.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise reject("file-unreadable", f"{file} cannot be read: {reason}", file=file) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise reject("file-unreadable", f"{file} is not a regular file", file=file)
        with os.fdopen(fd, "rb", closefd=False) as stream:
            return within_size(stream.read(limits.yaml_bytes + 1), status.st_size, file=file, limits=limits)
    finally:
        os.close(fd)


def within_size(data: bytes, size: int, *, file: str, limits: Limits) -> bytes:
    """``data``, if its ``size`` is within the limit ``yaml_bytes``."""
    if max(len(data), size) > limits.yaml_bytes:
        raise LimitExceeded(
            "yaml_bytes",
            allowed=limits.yaml_bytes,
            actual=max(len(data), size),
            rule="contract.file-too-large",
            where=Where(file=file),
            what=file,
        )
    return data


def decode(data: bytes, *, file: str) -> str:
    """The text of a contract.

    Raises:
        InputRejected: contract.encoding, contract.control-character or contract.yaml-tab.
    """
    if data.startswith(_UTF8_BOM):
        raise reject("encoding", "the file starts with a byte order mark", file=file, mark=Mark(1, 1))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        said = f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8"
        raise reject("encoding", said, file=file, mark=_mark_at(before, len(before))) from error
    if (hidden := _HIDDEN.search(text)) is not None:
        mark = _mark_at(text, hidden.start())
        raise reject("control-character", f"the character U+{ord(hidden[0][0]):04X} is not allowed", file=file, mark=mark)
    if (tab := _TAB_INDENT.search(text)) is not None:
        raise reject("yaml-tab", "a tab in the indentation", file=file, mark=_mark_at(text, tab.end() - 1))
    return text


def _mark_at(text: str, offset: int) -> Mark:
    line_start = text.rfind("\n", 0, offset) + 1
    return Mark(text.count("\n", 0, offset) + 1, offset - line_start + 1)
