"""SARIF as the official schema and its own prose want it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings

from contract.report import render
from contract.reporting import Report
from report.samples import HOSTILE, REPORTS
from report.test_hostile import reports, worst

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-schema-2.1.0.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA)


@pytest.mark.parametrize("name", REPORTS)
def test_samples_validate(name: str) -> None:
    VALIDATOR.validate(json.loads(render(REPORTS[name], "sarif")))


def test_the_worst_strings_validate() -> None:
    VALIDATOR.validate(json.loads(render(worst(HOSTILE), "sarif")))


@settings(max_examples=15)
@given(report=reports())
def test_any_report_validates_and_keeps_the_rule_on_levels(report: Report) -> None:
    document = json.loads(render(report, "sarif"))
    VALIDATOR.validate(document)
    (run,) = document["runs"]
    for result in run["results"]:
        # §3.27.9 and §3.27.10: only a result of kind "fail" has a level.
        assert (result["kind"] == "fail") == (result["level"] != "none")
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_no_name_becomes_a_link() -> None:
    (run,) = json.loads(render(worst("[0](http://x)"), "sarif"))["runs"]
    texts = [r["message"]["text"] for r in run["results"]]
    texts += [s["justification"] for r in run["results"] for s in r.get("suppressions", []) if "justification" in s]
    texts += [n["message"]["text"] for i in run["invocations"] for n in i["toolExecutionNotifications"]]
    assert texts
    assert all("[0]" in text and "](" not in text for text in texts)


def test_the_validator_notices() -> None:
    document = json.loads(render(REPORTS["violated"], "sarif"))
    document["runs"][0]["results"][0]["level"] = "bad"
    assert not VALIDATOR.is_valid(document)
