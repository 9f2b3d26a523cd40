"""The GitLab template: its schema, and its script run with its variables."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import yaml

from .conftest import ROOT, Workspace, validate

FILE = ROOT / "examples" / "gitlab-ci.yml"
JOB = yaml.safe_load(FILE.read_text())["contract"]


def test_the_schema() -> None:
    validate("vendor.gitlab-ci", FILE, more=("--data-transform", "gitlab-ci"))


def test_the_script(workspace: Workspace) -> None:
    script = "\n".join(JOB["script"])
    assert workspace.run(script, JOB["variables"]).returncode == 0
    workspace.miswire()
    ran = workspace.run(script, JOB["variables"])
    assert (ran.returncode, "FAILED reading.boundaries" in ran.stdout) == (1, True)
    reports = JOB["artifacts"]["reports"]
    assert ElementTree.parse(workspace.root / reports["junit"]).find(".//failure") is not None
    issues = json.loads((workspace.root / reports["codequality"]).read_text())
    assert "reading.boundaries" in {issue["check_name"] for issue in issues}
    assert all((workspace.root / path).exists() for path in JOB["artifacts"]["paths"])
