"""All files below a folder, without recursion: a stranger's folders may be nested deeper than Python calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contract.files.names import shown
from contract.files.rules import rejected
from contract.findings import Where
from contract.limits import Limits

NAME: Final = 1024
"""Characters of a path that a message gives."""


def files_below(place: Path, limits: Limits) -> Iterator[Path]:
    """Whatever is no folder, at any depth; of a link to a folder the link, which is not gone into.

    Raises:
        InputRejected: ``files.unreadable`` for a folder that cannot be listed.
        LimitExceeded: ``folder_depth``.
    """
    waiting = [(place, 0)]
    while waiting:
        folder, depth = waiting.pop()
        limits.enforce("folder_depth", depth, what=f"{place}: folders one in another", where=Where(file=str(place)))
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((folder / entry.name, depth + 1))
                    else:
                        yield folder / entry.name
        except OSError as error:
            name = shown(str(folder), NAME)
            raise rejected("files.unreadable", f"{name}: {error.strerror or error}", where=Where(file=name)) from error
