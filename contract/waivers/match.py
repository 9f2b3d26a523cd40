"""Whether a waiver's scope holds the place of a failure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from contract.findings import Check, Json, Where
from contract.reporting import Report
from contract.waivers.model import ANY, Scope
from contract.waivers.versions import covers, parse_range

_REFERENCE: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9._-]*?)(?:\[(?P<runner>[A-Za-z0-9_-]+)\])?(?:==(?P<version>[^\s=]+))?")
_NARROWING: Final = ("slot", "tensor", "file", "key")
_NOWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as a report names it (``vllm[v2]==0.32.0``)."""

    name: str
    runner: str | None
    version: str | None


def parse_engine(text: Json) -> Engine | None:
    """The engine that a string names, or None."""
    match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return Engine(match["name"].lower(), match["runner"], match["version"]) if match else None


def engine_of(check: Check, report: Report) -> Engine | None:
    """The engine that a check speaks of: the one it names, else the one whose capture the report is about."""
    named = parse_engine(check.evidence.get("engine"))
    if named is not None:
        return named
    capture = report.provenance.get("capture")
    if isinstance(capture, dict):
        return parse_engine(capture.get("imitates") or capture.get("reader") or capture.get("engine"))
    return None


def in_scope(scope: Scope, check: Check, engine: Engine | None) -> bool:
    """Whether a failure lies in a scope. A scope that names an engine never holds a failure of an unknown one."""
    where = check.where or _NOWHERE
    narrowed = all(getattr(scope, part) in (None, getattr(where, part)) for part in _NARROWING)
    return narrowed and engine_in_scope(scope, engine)


def engine_in_scope(scope: Scope, engine: Engine | None) -> bool:
    """Whether a scope is about this engine at this version."""
    if scope.engine == ANY:
        return True
    wanted = parse_engine(scope.engine)
    if wanted is None or engine is None or wanted.name != engine.name:
        return False
    return wanted.runner in (None, engine.runner) and covers(parse_range(scope.versions), engine.version)
