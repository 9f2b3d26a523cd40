"""Symbolic links that lead out of a folder.

For folders that are walked by name. Files that are opened through ``contract.files.paths.Folder`` need no such question.
"""

from __future__ import annotations

import os
from pathlib import Path

from contract.files.names import shown
from contract.files.rules import rejected
from contract.findings import Where


def refuse_link_out(path: Path, root: Path) -> None:
    """Refuse a file below ``root`` that is a link to a file elsewhere.

    Links within the folder are followed, and those of a Hugging Face cache: from below ``snapshots/<revision>`` to a file of ``blobs`` of
    the same repository. ``root`` itself may be a link: it is the user's own choice.

    Raises:
        InputRejected: ``files.path-escape``.
    """
    if not path.is_symlink():
        return
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    if real.is_relative_to(home):
        return
    revision = next((folder for folder in (home, *home.parents) if folder.parent.name == "snapshots"), None)
    if revision is not None and real.parent == revision.parent.parent / "blobs":
        return
    raise rejected(
        "files.path-escape",
        f"{shown(str(path))} is a link to {shown(str(real))}, out of the folder",
        where=Where(file=str(path)),
        fix="Put the file itself there, or name the folder that holds it.",
    )
