"""Every file of a folder, with its size and kind: the folder of a drafter is a closed world."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contract.errors import InputRejected
from contract.files.names import case_collisions, shown
from contract.files.paths import Folder, kind_of, size_of
from contract.files.rules import Problem, problem, problem_from_error, rejected
from contract.findings import Where
from contract.limits import Limits


class FileKind(StrEnum):
    """What a file of a checkpoint folder is, by its name."""

    CONFIG = "config"
    WEIGHTS = "weights"
    INDEX = "index"
    TOKENIZER = "tokenizer"
    PICKLE = "pickle"
    NPY = "npy"
    CODE = "code"
    FOLDER = "folder"
    OTHER = "other"


_KINDS: Final = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (FileKind.WEIGHTS, r".*\.safetensors"),
        (FileKind.INDEX, r".*\.index\.json"),
        (
            FileKind.TOKENIZER,
            r"(tokenizer.*|.*\.tiktoken|spiece\.model|vocab\.(json|txt)|merges\.txt|added_tokens\.json|special_tokens_map\.json"
            r"|chat_template\.(jinja|json))",
        ),
        (FileKind.CONFIG, r"(.*config.*|preprocessor.*|params)\.json"),
        (FileKind.PICKLE, r".*\.(bin|pt|pth|ckpt|pkl|pickle)(\.gz)?"),
        (FileKind.NPY, r".*\.np[yz]"),
        (FileKind.CODE, r".*\.(py|so|sh)"),
    )
)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One directory entry.

    Attributes:
        name: relative to the folder.
        kind: by name.
        size: bytes; 0 for a folder.
        links: hard links.
        usable: False if it is no regular file, or a link that is refused.
    """

    name: str
    kind: FileKind
    size: int
    links: int
    usable: bool


def file_kind(name: str) -> FileKind:
    """The kind of a file by its name."""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(name)), FileKind.OTHER)


def list_folder(folder: Folder, *, limits: Limits) -> tuple[tuple[FileInfo, ...], list[Problem]]:
    """The entries of a folder by name, subfolders not entered, and what is wrong with them.

    Raises:
        LimitExceeded: ``folder_files``.
    """
    names = os.listdir(folder.fd)
    limits.enforce("folder_files", len(names), what=f"{folder.path}: entries", where=Where(file=str(folder.path)))
    found: list[FileInfo] = []
    problems: list[Problem] = []
    for name in sorted(names):
        try:
            info = _look(folder, name)
        except InputRejected as error:
            problems.append(problem_from_error(error))
            info = FileInfo(name, file_kind(name), 0, 1, False)
        found.append(info)
        if info.links > 1 and info.kind is not FileKind.FOLDER:
            problems.append(
                problem(
                    "files.hard-link",
                    f"{shown(name)} has {info.links} hard links",
                    where=Where(file=shown(name)),
                    expected=1,
                    actual=info.links,
                )
            )
    for first, second in case_collisions(names):
        problems.append(
            problem(
                "files.case-collision",
                f"the files {shown(first)} and {shown(second)} differ only in case",
                where=Where(file=shown(second)),
            )
        )
    return tuple(found), problems


def _look(folder: Folder, name: str) -> FileInfo:
    try:
        status = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except OSError as error:
        raise rejected("files.unreadable", f"{shown(name)}: {error.strerror}", where=Where(file=shown(name))) from None
    if stat.S_ISDIR(status.st_mode) and file_kind(name) is not FileKind.WEIGHTS:
        return FileInfo(name, FileKind.FOLDER, 0, status.st_nlink, True)
    if stat.S_ISLNK(status.st_mode):
        with folder.open(name) as opened:
            return FileInfo(name, file_kind(name), opened.size, opened.links, True)
    if not stat.S_ISREG(status.st_mode):
        raise rejected(
            "files.not-regular",
            f"{shown(name)} is a {kind_of(status.st_mode)}, not a regular file",
            where=Where(file=shown(name)),
        )
    return FileInfo(name, file_kind(name), size_of(status), status.st_nlink, True)
