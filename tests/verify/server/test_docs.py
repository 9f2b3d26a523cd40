"""docs/server.md: its commands are run against imitations, its alerts speak of metrics that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from contract.findings import Check, Severity, Status
from contract.report import render
from contract.reporting import Report
from eagle3_contract.verify.server.client import API_KEY
from eagle3_contract.verify.server.rules import TABLE
from verify.server.conftest import DEMO, Case
from verify.server.imitations import Sglang, Vllm, served

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "server.md").read_text()
REAL = {"/models/target": str(DEMO / "target"), "contract.yaml": "contract.yaml", "prompts.jsonl": str(DEMO / "prompts.jsonl")}
METRIC = re.compile(r"contract_[a-z_]+")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_commands_are_kept_by_sound_servers(case: Case, exported: Case) -> None:
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == 4
    with served(Sglang()) as sglang, served(Vllm()) as vllm:
        for command in commands:
            for said, real in REAL.items():
                command = command.replace(f" {said}", f" {real}")
            of_vllm = "vllm=" in command
            command = command.replace("http://replica-3:30000", sglang).replace("http://replica-3:8000", vllm)
            done = run(command, exported.folder if of_vllm else case.folder)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_line_of_the_cron_table_writes_what_the_collector_reads(case: Case, tmp_path: Path) -> None:
    (line,) = blocks("cron")
    command = line.strip().partition("monitor")[2]
    with served(Sglang()) as url:
        for said, real in (
            ("/models/drafter/contract.yaml", str(case.spec)),
            ("/models/drafter/prompts.jsonl", str(DEMO / "prompts.jsonl")),
            ("/var/lib/node_exporter/", f"{tmp_path}/"),
            ("/var/log/", f"{tmp_path}/"),
            ("http://127.0.0.1:30000", url),
        ):
            assert said in command
            command = command.replace(said, real)
        done = run(command, tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "contract_exit_code{" in (tmp_path / "eagle3.prom").read_text()


def test_every_metric_is_on_the_page_and_no_other() -> None:
    figures: dict[str, Any] = {"accepted_length": 2.0, "accepted_length_interval": [1.0, 3.0], "promised_length": 1.4, "rounds": 9}
    figures |= {"position_acceptance": [0.5], "accuracy": [0.5]}
    checks = [
        Check(rule="a.b", status=status, required=True, severity=Severity.ERROR, dimension="d", message="m")
        for status in (Status.FAILED, Status.UNKNOWN)
    ]
    text = render(Report(command="verify", subject={}, checks=checks, measurements={"server": figures}), "prometheus")
    table = PAGE[PAGE.index("| metric |") :]
    assert set(METRIC.findall(table)) == set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    (alerts,) = blocks("yaml")
    rules = yaml.safe_load(alerts)["groups"][0]["rules"]
    assert {name for rule in rules for name in METRIC.findall(rule["expr"])} <= set(METRIC.findall(table))
    assert len(rules) == 3


def test_every_rule_that_is_named_exists() -> None:
    named = set(re.findall(r"`(server\.[a-z-]+)`", PAGE))
    assert len(named) > 6
    assert named <= TABLE.keys()
    assert API_KEY in PAGE
