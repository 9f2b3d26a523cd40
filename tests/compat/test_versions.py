"""What an earlier version wrote keeps its meaning: a folder per version of the file formats, written once by ``compat.make``."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from contract.api import check, verify
from contract.files.bundle import open_bundle
from contract.findings import ExitCode, Status
from contract.policy import load_policy
from contract.report.schema import report_schema
from contract.rules import all_rules
from contract.source import read_yaml
from contract.source.header import NEWEST_SCHEMA_VERSION, OLDEST_SCHEMA_VERSION
from contract.upgrading import upgraded
from contract.waivers import load_waivers

HERE = Path(__file__).parent
VERSIONS = sorted(path for path in HERE.glob("v*") if path.is_dir())


@pytest.fixture(params=VERSIONS, ids=lambda p: p.name)
def version(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, whose contract is brought to the newest version as a user would."""
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / request.param.name
    shutil.copytree(request.param, folder)
    spec = folder / "drafter" / "contract.yaml"
    text = upgraded(read_yaml(spec)).text
    if text is not None:
        spec.write_text(text)
    return folder


def test_every_version_has_a_folder() -> None:
    assert [path.name for path in VERSIONS] == [f"v{n}" for n in range(OLDEST_SCHEMA_VERSION, NEWEST_SCHEMA_VERSION + 1)]


def test_the_contract_keeps_verifying(version: Path) -> None:
    spec = version / "drafter" / "contract.yaml"
    kept = check(spec, target=version / "target", integrity="digests", policies=[version / "policy.yaml"])
    assert kept.exit_code is ExitCode.KEPT, [c.message for c in kept.checks if c.status is Status.FAILED or c.rejected]
    right = verify(spec, capture=version / "capture-right", target=version / "target", device="cpu", policies=[version / "policy.yaml"])
    assert right.exit_code is ExitCode.KEPT, [c.message for c in right.checks if c.status is Status.FAILED or c.rejected]
    assert {"states.recipe", "paths.logits"} <= {c.rule for c in right.checks if c.status is Status.PASSED}


def test_the_incident_is_still_found(version: Path) -> None:
    spec = version / "drafter" / "contract.yaml"
    report = verify(spec, capture=version / "capture-incident", target=version / "target", device="cpu")
    assert report.exit_code is ExitCode.VIOLATED
    assert "states.recipe" in {c.rule for c in report.checks if c.status is Status.FAILED}


def test_bundles_waivers_and_policies_are_read(version: Path) -> None:
    assert len(open_bundle(version / "capture-right").requests) == 3
    waivers = load_waivers(version / "drafter" / "contract.waivers.yaml", rules={rule.id: rule for rule in all_rules()})
    assert [w.last_day for w in waivers.waivers] == [date(2999, 12, 31)]
    assert load_policy([str(version / "policy.yaml")]).limits.tensors == 1000


def test_the_report_of_that_version_is_one_of_this_version_too(version: Path) -> None:
    report = json.loads((version / "report.json").read_text())
    jsonschema.Draft7Validator(report_schema()).validate(report)
    known = {rule.id for rule in all_rules()}
    assert {c["rule"] for c in report["checks"]} <= known, "a rule id is for ever"
