"""Reports and waivers files to judge."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from contract.findings import Check, Rule, Severity, Where
from contract.reporting import Report
from contract.waivers import Waivers, load_waivers

TODAY = date(2026, 6, 15)
MEASURED = "accepted length 2.41 with and 2.43 without, 200 prompts"


def rule(id_: str, dimension: str = "files", severity: Severity = Severity.ERROR) -> Rule:
    return Rule(id=id_, title="t", severity=severity, dimension=dimension, why="w", remedy="r")


LOUD = rule("drafter.file-unlisted")
SILENT = rule("reading.window", "rope")
OTHER = rule("reading.feedback", "wiring")
RULES: Mapping[str, Rule] = {r.id: r for r in (LOUD, SILENT, OTHER, rule("waivers.expired", "waivers"))}


def waiver(**changes: Any) -> dict[str, Any]:
    plain = {
        "rule": "drafter.file-unlisted",
        "scope": {"engine": "any", "versions": "any"},
        "reason": "a readme that no engine opens",
        "expires": "2026-12-31",
    }
    return {**plain, **changes}


def scope(engine: str = "any", versions: str = "any", **more: Any) -> dict[str, Any]:
    return {"engine": engine, "versions": versions, **more}


def write(folder: Path, *waivers: Mapping[str, Any], name: str = "contract.waivers.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump({"schema_version": 1, "waivers": list(waivers)}, sort_keys=False), encoding="utf-8")
    return path


def load(folder: Path, *waivers: Mapping[str, Any]) -> Waivers:
    return load_waivers(write(folder, *waivers), rules=RULES)


def failed(of: Rule = LOUD, *, engine: str | None = None, where: Where | None = None) -> Check:
    return of.failed("wrong", where=where, evidence={} if engine is None else {"engine": engine})


def report(*checks: Check, provenance: Mapping[str, Any] | None = None) -> Report:
    return Report(command="check", subject={}, checks=checks, provenance=provenance or {})
