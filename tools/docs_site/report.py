"""The page about the JSON report, from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from contract.report.schema import report_schema
from tools.docs_site.markdown import code, prose, table

INTRO = """\
# The JSON report

What `contract check`, `verify`, `init`, `diff` and `guard` write with `--format json`, in version 1 of its schema. Keys may be added
within a version; none is removed and none gets another type ([stability](stability.md)). The schema is
[specs/report.schema.json](specs/report.schema.json), and `contract schema --report` prints it. Passed checks are in the report too. Numbers
that are not finite are strings. `contract read --format json` has a shape of its own: [what an engine makes of a
checkpoint](engines/index.md).
"""


def pages() -> Iterator[tuple[str, str]]:
    """Path and markdown of the page."""
    schema = report_schema()
    lines = [INTRO, "## The report", *_fields(schema)]
    for name, part in schema["definitions"].items():
        lines += [f"## {name}", *_fields(part)]
    yield "json-report.md", "\n".join(lines) + "\n"


def _fields(part: dict[str, Any]) -> Iterator[str]:
    rows = ([code(name), _type(said), prose(str(said.get("description", "")))] for name, said in part["properties"].items())
    return table(["key", "value", "meaning"], rows)


def _type(said: dict[str, Any]) -> str:
    if "enum" in said:
        return ", ".join(code(v) for v in said["enum"])
    if "const" in said:
        return code(json.dumps(said["const"]))
    if "oneOf" in said:
        return " or ".join(_type(option) for option in said["oneOf"])
    if "$ref" in said:
        return str(said["$ref"]).rpartition("/")[2]
    if said.get("type") == "array":
        return f"list of {_type(said['items'])}"
    kinds = said.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
