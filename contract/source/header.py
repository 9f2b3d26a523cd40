"""The two keys that come before everything else: ``schema_version`` and ``kind``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from contract.files.names import shown
from contract.source.document import Document
from contract.source.nodes import MappingNode, Node, ScalarNode
from contract.source.rules import reject

NEWEST_SCHEMA_VERSION: Final = 1
OLDEST_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What decides how the rest of a contract is read."""

    schema_version: int
    kind: str


def read_header(document: Document, *, kinds: Iterable[str] | None = None) -> Header:
    """``schema_version`` and ``kind`` of a contract; ``kinds`` are the names that are installed (None: any name will do).

    Raises:
        InputRejected: contract.schema-version or contract.kind.
    """
    root = document.root
    if not isinstance(root, MappingNode):
        raise reject("kind", "a contract is a mapping with the keys schema_version and kind", file=document.file, mark=root.mark)
    version = _scalar(root.entries.get("schema_version"))
    if not isinstance(version, int) or isinstance(version, bool) or version < OLDEST_SCHEMA_VERSION:
        said = "the key schema_version is missing" if "schema_version" not in root.entries else f"schema_version is {shown(repr(version))}"
        raise reject("schema-version", said, file=document.file, mark=document.mark_of("schema_version"), key="schema_version")
    if version > NEWEST_SCHEMA_VERSION:
        raise reject(
            "schema-version",
            f"schema_version {_number(version)} is newer than this tool knows (up to {NEWEST_SCHEMA_VERSION})",
            file=document.file,
            mark=document.mark_of("schema_version"),
            key="schema_version",
            fix="Upgrade eagle3-contract: pip install --upgrade eagle3-contract.",
        )
    return Header(schema_version=version, kind=_kind(document, _scalar(root.entries.get("kind")), kinds))


def _kind(document: Document, kind: object, kinds: Iterable[str] | None) -> str:
    if not isinstance(kind, str):
        said = "the key kind is missing or no string"
        raise reject("kind", said, file=document.file, mark=document.mark_of("kind"), key="kind")
    known = None if kinds is None else sorted(kinds)
    if known is None or kind in known:
        return kind
    near = get_close_matches(kind, known, n=1)
    raise reject(
        "kind",
        f"no installed package brings the kind {shown(repr(kind))}; installed: {', '.join(known) or 'none'}",
        file=document.file,
        mark=document.mark_of("kind"),
        key="kind",
        fix=f"Did you mean {near[0]}?" if near else None,
    )


def _number(value: int) -> str:
    # Python writes no number of more than 4,300 digits out.
    return str(value) if value < 10**18 else "of more than 18 digits"


def _scalar(node: Node | None) -> object:
    return node.value if isinstance(node, ScalarNode) else None
