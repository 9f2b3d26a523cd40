"""Every file of the drafter's folder with its digest, as the contract lists them."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from contract.errors import InputRejected
from contract.files.inventory import FileInfo, FileKind, list_folder
from contract.files.paths import Folder
from contract.findings import Json
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.init.tree import clean


def list_files(folder: Path, accounted: Collection[Path], *, limits: Limits = DEFAULT_LIMITS) -> dict[str, Json]:
    """Name to digest, or to the reason why there is none.

    Args:
        accounted: resolved paths of what the contract accounts for elsewhere (itself, its golden rows, its samples).

    Raises:
        InputRejected: the folder cannot be read.
    """
    with Folder(folder) as opened:
        found, _ = list_folder(opened, limits=limits)
        return {info.name: _digest(opened, info) for info in found if not _elsewhere(folder / info.name, accounted)}


def _elsewhere(path: Path, accounted: Collection[Path]) -> bool:
    here = Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links in a circle
    return here in accounted or any(p.is_relative_to(here) for p in accounted)


def _digest(folder: Folder, info: FileInfo) -> Json:
    if info.kind is FileKind.FOLDER:
        return {"unknown": "a folder, whose files are not listed one by one"}
    try:
        with folder.open(info.name) as opened:
            return f"sha256:{opened.sha256()}"
    except InputRejected as error:
        return {"unknown": clean(f"the file cannot be read: {error.message}")}
