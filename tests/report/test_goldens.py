"""Every format of every sample report, against its golden file; and that the schemas take them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from contract.report import FORMATS, PLAIN, Style, render
from contract.report.schema import report_schema
from report.conftest import GOLDEN
from report.samples import REPORTS

SUFFIX = {"text": "txt", "json": "json", "jsonl": "jsonl", "junit": "xml", "sarif": "sarif.json", "github": "github.txt"}
SUFFIX |= {"gitlab": "gitlab.json", "markdown": "md", "html": "html", "prometheus": "prom"}
TERMINALS = {"boxes": Style(terminal=True, width=120), "narrow": Style(terminal=True, width=60), "color": Style(terminal=True, color=True)}


@pytest.fixture(autouse=True)
def one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden files do not change with the version of the package."""
    for module in ("json", "jsonl", "sarif", "html"):
        monkeypatch.setattr(f"contract.report.{module}.__version__", "0.0.0")


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("form", FORMATS)
def test_golden(form: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.{SUFFIX[form]}", render(REPORTS[name], form, PLAIN))


@pytest.mark.parametrize("terminal", TERMINALS)
def test_golden_terminal(terminal: str, golden: Callable[[str, str], None]) -> None:
    golden(f"violated.{terminal}.txt", render(REPORTS["violated"], "text", TERMINALS[terminal]))


def test_every_golden_file_is_compared() -> None:
    expected = {f"{name}.{suffix}" for name in REPORTS for suffix in SUFFIX.values()} | {f"violated.{t}.txt" for t in TERMINALS}
    assert {path.name for path in GOLDEN.iterdir()} == expected


@pytest.mark.parametrize("name", REPORTS)
def test_every_golden_json_validates(name: str) -> None:
    document = json.loads((GOLDEN / f"{name}.json").read_text(), parse_constant=pytest.fail)
    jsonschema.Draft7Validator(report_schema()).validate(document)


def test_the_schema_notices() -> None:
    document = json.loads((GOLDEN / "violated.json").read_text())
    validator = jsonschema.Draft7Validator(report_schema())
    for broken in ({"verdict": "fine"}, {"checks": [{}]}, {"extra": 1}, {"exit_code": 4}, {"schema_version": 2}):
        assert not validator.is_valid(document | broken)
    del document["checks"][0]["fix"]
    assert not validator.is_valid(document)


def test_the_committed_schema_is_current(request: pytest.FixtureRequest) -> None:
    path = Path(__file__).parents[2] / "specs" / "report.schema.json"
    text = json.dumps(report_schema(), indent=2) + "\n"
    if request.config.getoption("--update-goldens"):
        path.write_text(text)
    assert path.read_text() == text
    jsonschema.Draft7Validator.check_schema(report_schema())
