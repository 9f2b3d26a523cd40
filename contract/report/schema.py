"""The JSON Schema of the JSON report, version 1. Committed as specs/report.schema.json; a test keeps it current."""

from __future__ import annotations

from contract.findings import ExitCode, Json, Severity, Status, Verdict, Where
from contract.reporting import REPORT_SCHEMA_VERSION
from contract.structs.schema import DRAFT_07

REPORT_SCHEMA_ID = "urn:eagle3-contract:report:1"


def report_schema() -> dict[str, Json]:
    """What ``contract ... --format json`` writes for a report. Keys may be added within a version, never removed or given another type."""
    anything: dict[str, Json] = {}
    mapping = {"type": "object"}
    return {
        "$schema": DRAFT_07,
        "$id": REPORT_SCHEMA_ID,
        "title": "Report of eagle3-contract",
        "type": "object",
        "additionalProperties": False,
        "required": [
            *("schema_version", "tool", "command", "verdict", "exit_code", "subject", "checks", "measurements", "provenance"),
        ],
        "properties": {
            "schema_version": {"const": REPORT_SCHEMA_VERSION},
            "tool": _closed({"name": {"const": "eagle3-contract"}, "version": {"type": "string"}}),
            "command": {"type": "string", "description": "The command that made the report."},
            "verdict": {"enum": [v.value for v in Verdict]},
            "exit_code": {"enum": sorted(int(code) for code in ExitCode), "description": "0 kept, 1 violated, 2 unusable, 3 unknown."},
            "subject": {**mapping, "description": "What was looked at: contract, drafter, engines."},
            "checks": {"type": "array", "items": {"$ref": "#/definitions/check"}},
            "measurements": {**mapping, "description": "Figures that are no check by themselves."},
            "provenance": {**mapping, "description": "Versions, digests, device, command line."},
            "incomplete": {"const": True, "description": "There only if the run was interrupted."},
        },
        "definitions": {
            "check": _closed(
                {
                    "rule": {"type": "string", "description": "Stable id; `contract explain RULE` has the page."},
                    "status": {"enum": [s.value for s in Status]},
                    "required": {"type": "boolean", "description": "Whether being undecided prevents the verdict kept."},
                    "severity": {"enum": [s.value for s in Severity]},
                    "dimension": {"type": "string", "description": "The kind of mismatch: recipe, wiring, vocab ..."},
                    "where": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/where"}]},
                    "expected": anything,
                    "actual": anything,
                    "message": {"type": "string"},
                    "fix": {"type": ["string", "null"]},
                    "evidence": mapping,
                }
            ),
            "where": _where(),
        },
    }


def _closed(properties: dict[str, Json]) -> dict[str, Json]:
    return {"type": "object", "additionalProperties": False, "required": list(properties), "properties": properties}


def _where() -> dict[str, Json]:
    """From the fields of ``Where`` itself, so that a new one cannot be forgotten."""
    kinds: dict[str, Json] = {
        name: {"type": "string"} if "str" in str(annotation) else {"type": "integer"} for name, annotation in Where.__annotations__.items()
    }
    return {**_closed(kinds), "required": []}
