"""Folders that a contract names lie in its own."""

from __future__ import annotations

from typing import Any

import pytest

from contract.findings import ExitCode
from verify.scenario import Scenario


@pytest.mark.parametrize("path", ["..", "../elsewhere", "/etc", "a/../..", "link"])
@pytest.mark.parametrize("key", ["drafter", "samples"])
def test_no_path_leaves_the_contracts_folder(scenario: Scenario, key: str, path: str) -> None:
    (scenario.folder / "link").symlink_to("/etc")

    def change(c: dict[str, Any]) -> None:
        (c["drafter"] if key == "drafter" else c["training"]["samples"])["path"] = path

    scenario.rewrite(change)
    report = scenario.verify()
    assert report.exit_code is ExitCode.UNUSABLE
    assert {c.rule for c in report.checks} == {"contract.path-escape"}
