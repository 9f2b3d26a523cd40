"""Checks on a torch.save archive before anything in it is inflated or unpickled.

Scanners and loaders that read zip files differently are the known attack (picklescan's fixtures): so a file passes only if there is
nothing to disagree about. Every entry is stored, unencrypted, named alike in both places, inside the file, apart from the others,
with the checksum it claims, and one of the names that ``torch.save`` writes (torch 2.13, ``torch/serialization.py``).
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from typing import Final

from contract.errors import InputRejected
from contract.files.names import shown
from contract.files.paths import CHUNK_BYTES, OpenedFile
from contract.files.rules import rejected
from contract.findings import Where
from contract.limits import Limits

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_END: Final = struct.Struct("<4s4H2IH")
_UTF8_FLAG, _DESCRIPTOR_FLAG = 0x0800, 0x0008
_ENCRYPTED_FLAGS = 0x0001 | 0x0040 | 0x2000
_NAME = re.compile(
    r"([^/\\\x00]{1,200})/(data\.pkl|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id|data/\d{1,9})",
    re.ASCII,
)
_DIRECTORY_ENTRY_BYTES: Final = 512
_BAD_ZIP = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, EOFError, OSError, IndexError)


def check_torch_zip(opened: OpenedFile, *, limits: Limits) -> None:
    """Raise unless the file is an archive exactly as ``torch.save`` writes it.

    Raises:
        InputRejected: ``files.pickle-*`` with what is odd.
        LimitExceeded: bytes or entries.
    """
    check = _Check(opened)
    limits.enforce("pickle_bytes", opened.size, what=opened.name, where=check.where)
    directory_bytes = check.end_record()
    limits.enforce("pickle_entries", directory_bytes // _DIRECTORY_ENTRY_BYTES, what=f"{opened.name}: zip entries", where=check.where)
    try:
        with os.fdopen(os.dup(opened.fd), "rb") as file, zipfile.ZipFile(file) as archive:
            entries, directory_start = archive.infolist(), archive.start_dir
    except _BAD_ZIP as error:
        raise check.fail("format", f"is no sound zip archive: {error}") from None
    limits.enforce("pickle_entries", len(entries), what=f"{opened.name}: zip entries", where=check.where)
    check.names(entries)
    at = 0
    for entry in sorted(entries, key=lambda e: e.header_offset):
        at = check.entry(entry, at, directory_start)
    if at != directory_start:
        raise check.fail("sizes", "has bytes between its last entry and its directory")


class _Check:
    def __init__(self, opened: OpenedFile) -> None:
        self.opened = opened
        self.where = Where(file=opened.name)

    def fail(self, rule: str, message: str) -> InputRejected:
        return rejected(f"files.pickle-{rule}", f"{self.opened.name} {message}", where=self.where)

    def end_record(self) -> int:
        """Bytes of the central directory, from an end record that is the very end of the file."""
        head = self.opened.read(0, min(8, self.opened.size))
        if not head.startswith(b"PK\x03\x04"):
            what = "a raw pickle" if head.startswith(b"\x80") else "no zip archive"
            raise self.fail("format", f"is {what}; torch.save writes a zip archive")
        if self.opened.size < _LOCAL.size + _END.size:
            raise self.fail("format", "is cut off")
        end = _END.unpack(self.opened.read(self.opened.size - _END.size, _END.size))
        if end[0] != b"PK\x05\x06" or end[7] != 0:
            raise self.fail("format", "does not end with a zip directory: it is cut off, or something follows it")
        return int(end[5])

    def names(self, entries: list[zipfile.ZipInfo]) -> None:
        seen: set[str] = set()
        roots: set[str] = set()
        for entry in entries:
            match = _NAME.fullmatch(entry.orig_filename)
            if match is None or not entry.orig_filename.isascii():
                raise self.fail("names", f"holds the entry {shown(entry.orig_filename)}, which torch.save does not write")
            roots.add(match.group(1))
            if match.group(2) in seen:
                raise self.fail("names", f"holds the entry {shown(entry.orig_filename)} twice")
            seen.add(match.group(2))
        if len(roots) != 1 or "data.pkl" not in seen:
            raise self.fail("names", "does not hold exactly one data.pkl in one folder")

    def entry(self, entry: zipfile.ZipInfo, at: int, directory_start: int) -> int:
        """Check one entry that must begin at byte ``at``; returns where the next one must begin."""
        name = shown(entry.orig_filename)
        if entry.compress_type != zipfile.ZIP_STORED:
            raise self.fail("compressed", f"holds {name} compressed (method {entry.compress_type})")
        if entry.flag_bits & _ENCRYPTED_FLAGS:
            raise self.fail("encrypted", f"holds {name} encrypted")
        if entry.flag_bits & ~(_UTF8_FLAG | _DESCRIPTOR_FLAG):
            raise self.fail("format", f"holds {name} with the zip flags {entry.flag_bits:#06x}")
        if entry.header_offset != at or at + _LOCAL.size > directory_start or entry.compress_size != entry.file_size:
            raise self.fail("sizes", f"holds {name} at byte {entry.header_offset}, not at {at}, or with two sizes")
        magic, _, flags, method, _, _, crc, stored, size, name_bytes, extra_bytes = _LOCAL.unpack(self.opened.read(at, _LOCAL.size))
        begin = at + _LOCAL.size + name_bytes + extra_bytes
        end: int = begin + entry.file_size
        if end > directory_start:
            raise self.fail("sizes", f"holds {name} with {entry.file_size} bytes, more than the file has")
        if magic != b"PK\x03\x04" or self.opened.read(at + _LOCAL.size, name_bytes) != entry.orig_filename.encode():
            raise self.fail("names", f"names {name} otherwise in the entry than in the directory")
        if flags != entry.flag_bits or method != entry.compress_type:
            raise self.fail("names", f"describes {name} otherwise in the entry than in the directory")
        described = (crc, stored, size) == (entry.CRC, entry.file_size, entry.file_size)
        if not described and not flags & _DESCRIPTOR_FLAG and size != 0xFFFFFFFF:
            raise self.fail("sizes", f"gives {name} other sizes in the entry than in the directory")
        self.content(entry, name, begin)
        return end + (self.descriptor(entry, name, end) if flags & _DESCRIPTOR_FLAG else 0)

    def content(self, entry: zipfile.ZipInfo, name: str, begin: int) -> None:
        crc, first = 0, b""
        for at in range(0, entry.file_size, CHUNK_BYTES):
            data = self.opened.read(begin + at, min(CHUNK_BYTES, entry.file_size - at))
            first = first or data[:16]
            crc = zlib.crc32(data, crc)
        if crc != entry.CRC:
            raise self.fail("crc", f"holds {name} with checksum {crc:#010x}; it claims {entry.CRC:#010x}")
        if entry.orig_filename.endswith("/byteorder") and first != b"little":
            raise self.fail("format", "was written on a big-endian machine")

    def descriptor(self, entry: zipfile.ZipInfo, name: str, at: int) -> int:
        """Bytes of the data descriptor after an entry; its figures must be the directory's."""
        for layout in ("<4sIII", "<4sIQQ"):
            size: int = struct.calcsize(layout)
            if at + size <= self.opened.size:
                found = struct.unpack(layout, self.opened.read(at, size))
                if found == (b"PK\x07\x08", entry.CRC, entry.file_size, entry.file_size):
                    return size
        raise self.fail("sizes", f"describes {name} otherwise after the entry than in the directory")
