"""Names of repositories on the Hugging Face Hub, as a user writes them where a folder is due. Nothing here imports huggingface_hub.

``hf:org/name@REVISION`` always means the Hub. ``org/name@REVISION`` means it where no such file or folder exists here: what is on
this disk wins, and the report says so. A bare ``org/name`` is a path (docs/adr/0010).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from contract.errors import UsageError

PREFIX: Final = "hf:"
_PART: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REVISION: Final = r"refs/pr/[0-9]{1,9}|[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_ID: Final = re.compile(rf"(?P<repository>{_PART}/{_PART})(?:@(?P<revision>{_REVISION})(?:/(?P<file>[^\x00-\x1f\x7f\\]{{1,512}}))?)?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubId:
    """A repository of models on the Hub.

    Attributes:
        repository: ``org/name``.
        revision: commit, branch or tag; None if none was named.
        file: a file in it, where one may be named (a contract).
    """

    repository: str
    revision: str | None = None
    file: str | None = None

    @property
    def pinned(self) -> bool:
        """True if the revision is a whole commit, which always means the same files."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return PREFIX + self.repository + (f"@{self.revision}" if self.revision else "") + (f"/{self.file}" if self.file else "")


def hub_id(text: str) -> HubId | None:
    """The repository that a text names; None if it is a path.

    Raises:
        UsageError: rule ``hub.id``: it begins with ``hf:`` and names no repository.
    """
    explicit = text.startswith(PREFIX)
    match = _ID.fullmatch(text.removeprefix(PREFIX))
    dotted = match is not None and (".." in match["repository"] or "--" in match["repository"] or ".." in (match["revision"] or ""))
    if explicit and (match is None or dotted):
        raise UsageError(
            f"{text[:200]!r} names no repository of the Hub",
            rule="hub.id",
            fix="Write hf:organisation/name@COMMIT, with the 40 characters of a commit.",
        )
    if match is None or dotted or not (explicit or match["revision"]) or (not explicit and os.path.lexists(text)):
        return None
    return HubId(match["repository"], match["revision"], match["file"])


def shadowed(text: str) -> bool:
    """True if a text would name a repository of the Hub, were there no such file or folder here."""
    return not text.startswith(PREFIX) and "@" in text and _ID.fullmatch(text) is not None and os.path.lexists(text)


def looks_bare(text: str) -> bool:
    """True for ``org/name``, which is a path, but perhaps not a meant one."""
    return re.fullmatch(f"{_PART}/{_PART}", text) is not None


def is_commit(text: object) -> bool:
    """True for the 40 characters of a whole commit."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None
