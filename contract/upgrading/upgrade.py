"""Bring the text of a contract to the newest version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contract.errors import InternalError
from contract.source import Document
from contract.source.header import NEWEST_SCHEMA_VERSION, read_header
from contract.source.nodes import to_plain
from contract.upgrading.migrations import MIGRATIONS, Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """``text`` is the upgraded contract, None if it is current; ``changes`` is what was changed."""

    old: int
    new: int
    text: str | None
    changes: Sequence[str]


def upgraded(document: Document, *, migrations: Sequence[Migration] = MIGRATIONS, newest: int = NEWEST_SCHEMA_VERSION) -> Upgraded:
    """Apply every step from the contract's version on. Comments are lost where something changes.

    Raises:
        InputRejected: ``schema_version`` or ``kind`` is missing, or the contract is newer than this tool.
        InternalError: a step is missing.
    """
    header = read_header(document)
    content = to_plain(document.root)
    changes: list[str] = []
    for version in range(header.schema_version, newest):
        steps = [m for m in migrations if m.old == version]
        if not steps:
            raise InternalError(f"there is no step from version {version} to {version + 1}")
        for step in steps:
            if step.kind in (None, header.kind):
                content = step.apply(content)
                changes += step.changes
        content["schema_version"] = version + 1
    text = _dumped(content) if header.schema_version < newest else None
    return Upgraded(old=header.schema_version, new=max(newest, header.schema_version), text=text, changes=tuple(changes))


def _dumped(content: object) -> str:
    import yaml

    # allow_unicode stays off: a character that the loader refuses in plain text is written as an escape that it refuses too.
    return str(yaml.safe_dump(content, sort_keys=False, width=120))
