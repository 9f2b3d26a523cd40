"""The command line, as whoever is on call runs it: exit codes, files, and an installation without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from verify.server.conftest import DEMO, Case
from verify.server.imitations import KEY, Sglang, served

WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "numpy_torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
from contract.cli.main import run
run()
"""


def contract(*argv: str, cwd: Path, code: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code] if code is not None else [sys.executable, "-m", "contract"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "", **environ}
    return subprocess.run([*command, *argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_without_torch_with_prompts_of_a_file(case: Case) -> None:
    with served(Sglang()) as url:
        ran = contract("verify", str(case.spec), "--server", url, "--prompts", str(DEMO / "prompts.jsonl"), cwd=case.folder, code=WITHOUT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("KEPT")


def test_the_reports_of_one_run(case: Case, tmp_path: Path) -> None:
    server = Sglang()
    server.key = KEY
    server.weaker = lambda n: n // 8
    with served(server) as url:
        command = ["verify", str(case.spec), "--server", url, "--format", "text"]
        command += [f"--format={name}={tmp_path / name}" for name in ("json", "prometheus")]
        ran = contract(*command, cwd=case.folder, EAGLE3_CONTRACT_API_KEY=KEY)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "accepted length:" in ran.stdout
    assert KEY not in ran.stdout + ran.stderr + (tmp_path / "json").read_text()
    report = json.loads((tmp_path / "json").read_text())
    assert report["subject"]["server"] == url
    samples = {
        (s.name, *sorted((k, v) for k, v in s.labels.items() if k not in ("command", "spec", "server"))): s.value
        for family in text_string_to_metric_families((tmp_path / "prometheus").read_text())
        for s in family.samples
    }
    assert samples["contract_exit_code",] == 1
    assert samples["contract_accepted_length", ("path", "server")] == report["measurements"]["server"]["accepted_length"]
    assert samples["contract_promised_length", ("path", "server")] == 1.4
    assert samples["contract_failed_checks", ("rule", "acceptance.floor")] == 1
    assert ("contract_position_acceptance", ("path", "server"), ("position", "2")) in samples


def test_a_password_is_in_no_report_that_fails_early(case: Case, tmp_path: Path) -> None:
    for url in ("http://u:secret@h", "http://h?key=secret"):
        for more in ([], ["--policy", str(tmp_path / "none.yaml")]):
            ran = contract("verify", str(case.spec), "--server", url, *more, "--format", "json", cwd=case.folder)
            assert ran.returncode == 2
            assert "secret" not in ran.stdout + ran.stderr
