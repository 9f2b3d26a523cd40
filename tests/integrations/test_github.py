"""The GitHub action: its schema, and its script run as a runner runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from .conftest import ROOT, Workspace, validate

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, RUN = ACTION["runs"]["steps"]


def act(workspace: Workspace, **inputs: str) -> tuple[CompletedProcess[str], Mapping[str, str]]:
    """Run the second step: ``${{ inputs.x }}`` replaced, outputs read back."""
    given = {name: str(item.get("default", "")) for name, item in ACTION["inputs"].items()} | {
        k.replace("_", "-"): v for k, v in inputs.items()
    }
    environ = {name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: given[m[1]], text) for name, text in RUN["env"].items()}
    output, summary = workspace.root / "output.txt", workspace.root / "summary.md"
    output.write_text("")
    files = {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    ran = workspace.run(RUN["run"], {**environ, **files})
    return ran, dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_the_files_satisfy_their_schemas() -> None:
    validate("vendor.github-actions", ROOT / "action.yml")
    validate("vendor.github-workflows", ROOT / "examples" / "github-workflow.yml", *(ROOT / ".github" / "workflows").glob("*.yml"))
    forms = ROOT / ".github" / "ISSUE_TEMPLATE"
    validate("vendor.github-issue-forms", *(path for path in forms.glob("*.yml") if path.name != "config.yml"))
    validate("vendor.github-issue-config", forms / "config.yml")


def test_no_input_is_written_into_a_script() -> None:
    for step in (INSTALL, RUN):
        assert "${{" not in step["run"]
    used = set(re.findall(r"inputs\.([a-z-]+)", str([INSTALL.get("env"), INSTALL.get("if"), RUN["env"]])))
    assert used == set(ACTION["inputs"])


def test_the_example_uses_inputs_that_exist() -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "github-workflow.yml").read_text())
    (step,) = [s for s in workflow["jobs"]["contract"]["steps"] if s.get("id") == "contract"]
    assert set(step["with"]) <= set(ACTION["inputs"])


def test_kept(workspace: Workspace) -> None:
    ran, outputs = act(
        workspace, spec="drafter/contract.yaml", engines="sglang==0.5.23\n\n", target="target", sarif="c.sarif", html="c.html"
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert outputs == {"exit-code": "0", "verdict": "kept", "report": "contract-report.json"}
    assert ran.stdout.startswith("::notice ")
    assert (workspace.root / "summary.md").read_text().startswith("## contract kept")
    assert (workspace.root / "c.sarif").exists()
    assert (workspace.root / "c.html").exists()


def test_violated(workspace: Workspace) -> None:
    workspace.miswire()
    ran, outputs = act(workspace, spec="drafter/contract.yaml", engines="vllm[v2]==0.32.0\nsglang==0.5.23", integrity="digests")
    assert (ran.returncode, outputs["exit-code"], outputs["verdict"]) == (1, "1", "violated")
    assert "::error " in ran.stdout


def test_what_cannot_be_used(workspace: Workspace) -> None:
    ran, outputs = act(workspace, spec="absent.yaml")
    assert (ran.returncode, outputs["exit-code"], outputs["verdict"]) == (2, "2", "unknown")
    ran, _ = act(workspace, spec="drafter/contract.yaml", command="demo")
    assert ran.returncode == 2
    ran, _ = act(workspace, spec="drafter/contract.yaml", command="verify", integrity="digests")
    assert ran.returncode in (2, 3)


def test_hostile_inputs_are_only_text(workspace: Workspace) -> None:
    hostile = '"; touch hacked; $(touch hacked) `touch hacked` --help'
    fields: dict[str, Any] = dict.fromkeys(("spec", "engines", "target", "policy", "integrity", "command", "serve_args"), hostile)
    for name, value in fields.items():
        ran, outputs = act(workspace, **{"spec": "drafter/contract.yaml", name: value})
        assert ran.returncode == 2, (name, ran.stdout, ran.stderr)
        assert outputs.get("verdict", "unknown") == "unknown"
    act(workspace, spec="--help")
    assert not list(Path(workspace.root).rglob("hacked"))
