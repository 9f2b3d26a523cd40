"""The example files are what they say, against the rules and the settings that exist."""

from __future__ import annotations

import shutil

import pytest

from contract.policy import load_policy
from contract.rules import all_rules
from contract.settings import effective
from contract.waivers import load_waivers

from .conftest import ROOT, Workspace

EXAMPLES = ROOT / "examples"


def test_the_policy_loads() -> None:
    policy = load_policy([str(EXAMPLES / "policy.yaml")])
    known = {rule.id for rule in all_rules()} | {rule.id.partition(".")[0] + ".*" for rule in all_rules()}
    assert set(policy.forbidden) <= known


def test_the_waivers_load() -> None:
    waivers = load_waivers(EXAMPLES / "contract.waivers.yaml", rules={rule.id: rule for rule in all_rules()})
    assert len(waivers.waivers) == 2


def test_the_configuration_loads() -> None:
    configured = {s.option.name for s in effective(EXAMPLES, {}) if s.value is not None}
    assert configured == {"engines", "target", "integrity", "policy"}


def test_configuration_and_policy_together(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("contract.toml", "policy.yaml"):
        shutil.copy(EXAMPLES / name, workspace.root)
    toml = (
        (workspace.root / "contract.toml")
        .read_text()
        .replace('engines = ["sglang==0.5.23", "vllm[v2]==0.32.0"]', 'engines = ["sglang==0.5.23"]')
    )
    (workspace.root / "contract.toml").write_text(toml)
    ran = workspace.run("contract check drafter/contract.yaml --format json > r.json; contract config --show-origin")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"integrity = values  [{workspace.root / 'contract.toml'}]" in ran.stdout
    report = (workspace.root / "r.json").read_text()
    assert '"drafter.digest"' in report, "the policy raises the depth from values to digests"
