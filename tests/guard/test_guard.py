"""The guard as its own process: it becomes the command, or refuses it. Every case really runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from factory import pair, write_contract

SGLANG = "sglang==0.5.23"
VLLM = "vllm==0.32.0"
SERVER = """#!{python}
import json, os, sys
with open({started!r}, "w") as file:
    json.dump([os.getpid(), sys.argv[1:]], file)
print("serving")
sys.exit(7)
"""


@dataclass
class Place:
    """A folder with a drafter that its contract keeps, one that SGLang would feed other states, and programs that say that they ran."""

    root: Path

    @property
    def started(self) -> Path:
        return self.root / "started.json"

    def guard(self, *argv: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "contract", "guard", *argv]
        found = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "CONTRACT_POLICY": "", **(environ or {})}
        return subprocess.run(line, capture_output=True, text=True, cwd=self.root, env=found, check=False)

    def arguments(self) -> Sequence[str]:
        found: Sequence[str] = json.loads(self.started.read_text())[1]
        return found


@pytest.fixture(scope="module")
def drafters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drafters")
    pair().write(root / "good")
    pair(ids=(2, 4, 5)).write(root / "miswired")
    open_question = pair()
    open_question.contract["wiring"]["rope"]["theta"] = {"unknown": "nobody remembers"}
    open_question.write(root / "open")
    return root


@pytest.fixture
def place(drafters: Path, tmp_path: Path) -> Place:
    shutil.copytree(drafters, tmp_path, dirs_exist_ok=True)
    (tmp_path / "bin").mkdir()
    for name in ("vllm", "sglang", "server"):
        program = tmp_path / "bin" / name
        program.write_text(SERVER.format(python=sys.executable, started=str(tmp_path / "started.json")))
        program.chmod(0o755)
    return Place(tmp_path)


def test_a_kept_contract_becomes_the_command(place: Place) -> None:
    line = [
        sys.executable,
        "-m",
        "contract",
        "guard",
        "good/contract.yaml",
        "--engine",
        SGLANG,
        "--",
        str(place.root / "bin/server"),
        "--a",
        "b c",
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place.root) as process:
        out, err = process.communicate()
    pid, arguments = json.loads(place.started.read_text())
    assert (process.returncode, out) == (7, "serving\n"), "stdout and exit code are the command's"
    assert (pid, arguments) == (process.pid, ["--a", "b c"]), "the same process, not a child"
    assert err.startswith("KEPT (exit 0)")


def test_the_command_gets_the_default_signals(place: Place) -> None:
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--", "grep", "SigIgn", "/proc/self/status")
    ignored = int(ran.stdout.split()[1], 16)
    assert not ignored & (1 << 12), "SIGPIPE, number 13"


def test_a_miswired_drafter_is_refused(place: Place) -> None:
    ran = place.guard("miswired/contract.yaml", "--engine", SGLANG, "--", "server")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "FAILED reading.boundaries" in ran.stderr
    assert ran.stderr.endswith("refused: server is not started (exit 1)\n")
    assert not place.started.exists()


@pytest.mark.parametrize(
    ("spec", "options", "code"),
    [
        ("absent.yaml", (), 2),
        ("good/contract.yaml", ("--policy", "absent.yaml"), 2),
        ("good/contract.yaml", ("--target", "absent"), 2),
        ("good/contract.yaml", ("--verify", "--capture", "absent"), 2),
        ("good/contract.yaml", ("--engine", "nonsense"), 2),
        ("good/contract.yaml", ("--format", "json=no/such/folder.json"), 2),
    ],
)
def test_what_cannot_be_used_is_never_started(place: Place, spec: str, options: Sequence[str], code: int) -> None:
    ran = place.guard(spec, "--engine", SGLANG, *options, "--on-unknown", "warn", "--", "server")
    assert (ran.returncode, place.started.exists()) == (code, False), ran.stderr


def test_an_unknown_verdict_is_started_only_by_choice(place: Place) -> None:
    ran = place.guard("open/contract.yaml", "--engine", SGLANG, "--", "server")
    assert (ran.returncode, place.started.exists()) == (3, False), ran.stderr
    ran = place.guard("open/contract.yaml", "--engine", SGLANG, "--on-unknown", "warn", "--", "server")
    assert (ran.returncode, "warning: the verdict is unknown" in ran.stderr) == (7, True), ran.stderr


def test_on_unknown_warn_does_not_start_a_violated_one(place: Place) -> None:
    assert place.guard("miswired/contract.yaml", "--engine", SGLANG, "--on-unknown", "warn", "--", "server").returncode == 1
    assert not place.started.exists()


def _sglang(*more: str, drafter: str = "good", steps: int = 3) -> list[str]:
    flags = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", drafter, "--speculative-num-steps", str(steps)]
    return ["sglang", "serve", "--model-path", "t", *flags, "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4", *more]


def test_the_flags_are_those_of_the_command(place: Place) -> None:
    command = _sglang()
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--", *command)
    assert (ran.returncode, ["sglang", *place.arguments()]) == (7, command), ran.stderr
    place.started.unlink()
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--", *_sglang(steps=1))
    assert (ran.returncode, place.started.exists()) == (1, False)
    assert "FAILED reading.serve" in ran.stderr


def test_random_weights_are_refused(place: Place) -> None:
    format_of_the_draft = "--speculative-draft-load-format"
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--", *_sglang(format_of_the_draft, "dummy"))
    assert (ran.returncode, place.started.exists()) == (1, False)
    assert "FAILED serve.dummy-weights" in ran.stderr
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--", *_sglang(format_of_the_draft, "auto"))
    assert (ran.returncode, place.started.exists()) == (7, True), ran.stderr


def test_the_server_gets_the_drafter_that_was_verified(place: Place) -> None:
    other = place.guard("good/contract.yaml", "--engine", SGLANG, "--", *_sglang(drafter="miswired"))
    assert (other.returncode, "FAILED guard.drafter" in other.stderr) == (1, True)
    none = place.guard("good/contract.yaml", "--engine", VLLM, "--", "vllm", "serve", "t")
    assert (none.returncode, "FAILED guard.drafter" in none.stderr) == (1, True)
    hub = place.guard("good/contract.yaml", "--engine", SGLANG, "--", *_sglang(drafter="someone/drafter"))
    assert (hub.returncode, "UNKNOWN guard.drafter" in hub.stderr) == (3, True)
    config = place.guard("good/contract.yaml", "--engine", VLLM, "--", "vllm", "serve", "t", "--config", "c.yaml")
    assert "UNKNOWN guard.drafter" in config.stderr
    assert not place.started.exists()


def test_vllm_reads_the_same_ids_otherwise(place: Place) -> None:
    config = json.dumps({"method": "eagle3", "model": "miswired", "num_speculative_tokens": 3})
    ran = place.guard("miswired/contract.yaml", "--engine", VLLM, "--", "vllm", "serve", "t", "--speculative-config", config)
    assert ran.returncode == 7, ran.stderr
    assert place.arguments()[-1] == config


def test_another_target_than_the_verified_one(place: Place) -> None:
    for name in ("t", "u"):
        (place.root / name).mkdir()
        target = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96}
        (place.root / name / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **target}))
    ran = place.guard(
        "good/contract.yaml",
        "--engine",
        SGLANG,
        "--target",
        "u",
        "--",
        *_sglang(),
    )
    assert (ran.returncode, "FAILED guard.target" in ran.stderr) == (1, True)
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--target", "t/config.json", "--", *_sglang())
    assert "guard.target" not in ran.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("good/contract.yaml", "--engine", SGLANG),
        ("good/contract.yaml", "--engine", SGLANG, "--"),
        ("good/contract.yaml", "--", "server"),
        ("good/contract.yaml", "--engine", VLLM, "--", "sglang", "serve"),
        ("good/contract.yaml", "--engine", SGLANG, "--serve-args", "sglang=--x 1", "--", "sglang", "serve"),
        ("good/contract.yaml", "--engine", SGLANG, "--capture", "b", "--", "server"),
        ("good/contract.yaml", "--engine", SGLANG, "server", "--flag"),
    ],
)
def test_what_makes_no_sense_is_exit_2(place: Place, argv: Sequence[str]) -> None:
    ran = place.guard(*argv)
    assert (ran.returncode, ran.stdout, place.started.exists()) == (2, "", False)


def test_a_command_that_cannot_be_started(place: Place) -> None:
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--", "no-such-program")
    assert (ran.returncode, "guard.exec" in ran.stderr) == (2, True)
    (place.root / "bin" / "plain").write_text("x")
    assert place.guard("good/contract.yaml", "--engine", SGLANG, "--", str(place.root / "bin/plain")).returncode == 2


def test_reports_to_files_and_hostile_names(place: Place) -> None:
    ran = place.guard("miswired/contract.yaml", "--engine", SGLANG, "--format", "json=r.json", "--", "a\x1b[31m\n::error::b")
    report = json.loads((place.root / "r.json").read_text())
    assert (ran.returncode, report["command"], report["exit_code"]) == (1, "guard", 1)
    assert "\x1b" not in ran.stderr
    assert "\n::error" not in ran.stderr


def test_waivers_and_policy_hold_for_the_guard_too(place: Place) -> None:
    waiver = {
        "rule": "reading.boundaries",
        "scope": {"engine": "sglang", "versions": "==0.5.23"},
        "reason": "the new checkpoint comes on Monday",
        "expires": "2099-01-01",
        "measured": "accepted length 2.41 against 2.43, 200 prompts",
    }
    (place.root / "miswired" / "contract.waivers.yaml").write_text(yaml.safe_dump({"schema_version": 1, "waivers": [waiver]}))
    ran = place.guard("miswired/contract.yaml", "--engine", SGLANG, "--", "server")
    assert (ran.returncode, "WAIVED reading.boundaries" in ran.stderr) == (7, True), ran.stderr
    place.started.unlink()
    (place.root / "p.yaml").write_text("schema_version: 1\nwaivers: {max_days: 30}\n")
    ran = place.guard("miswired/contract.yaml", "--engine", SGLANG, "--", "server", environ={"CONTRACT_POLICY": "p.yaml"})
    assert (ran.returncode, place.started.exists()) == (2, False)


def test_a_tolerance_looser_than_the_policy_is_refused(place: Place) -> None:
    loose = pair()
    loose.contract["tolerances"] = {"states": 0.5, "logits": None}
    write_contract(
        place.root / "good" / "contract.yaml",
        {**yaml.safe_load((place.root / "good/contract.yaml").read_text()), "tolerances": loose.contract["tolerances"]},
    )
    (place.root / "p.yaml").write_text("schema_version: 1\ntolerances: {states: 0.05}\n")
    ran = place.guard("good/contract.yaml", "--engine", SGLANG, "--policy", "p.yaml", "--", "server")
    assert (ran.returncode, "policy.tolerance-too-loose" in ran.stderr) == (2, True)
