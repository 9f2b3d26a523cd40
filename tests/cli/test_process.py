"""The command line as its own process: what it imports, and how it ends when the world ends around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "tokenizers", "ray")
LISTED = """
import json, sys
from contract.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("\\nMODULES " + json.dumps([code, sorted(sys.modules)]))
"""
SLEEPER = """
import sys, time
from contract import kinds
class Kind:
    name = title = "fake"
    def rules(self): return []
    def contract_struct(self): return object
    def check(self, request):
        sys.stderr.write("started\\n"); sys.stderr.flush()
        time.sleep(60)
class Point:
    value = "x"
    def load(self): return Kind()
kinds._entry_points = lambda: {"fake": Point()}
from contract.cli.main import run
run()
"""


def modules(*argv: str, cwd: Path) -> tuple[int, set[str]]:
    """Exit code, and the modules that were imported on the way."""
    ran = subprocess.run([sys.executable, "-c", LISTED, *argv], capture_output=True, text=True, cwd=cwd, check=True)
    code, names = json.loads(ran.stderr.rpartition("MODULES ")[2])
    return code, set(names)


def test_help_imports_almost_nothing(tmp_path: Path) -> None:
    code, names = modules("--help", cwd=tmp_path)
    assert code == 0
    assert not names & {*HEAVY, "numpy", "rich", "structlog", "jsonschema", "yaml", "msgspec"}


@pytest.mark.parametrize("line", [("check", "c.yaml"), ("show", "c.yaml"), ("read", "d", "--engine", "vllm"), ("explain", "contract.kind")])
def test_the_static_depth_imports_neither_torch_nor_transformers(line: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("schema_version: 1\nkind: eagle3\n")
    (tmp_path / "d").mkdir()
    _, names = modules(*line, cwd=tmp_path)
    assert not names & {*HEAVY, "structlog"}


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "junit", "sarif", "github", "gitlab", "markdown", "html"])
def test_no_renderer_imports_torch(form: str, tmp_path: Path) -> None:
    code, names = modules("check", "absent.yaml", "--format", form, cwd=tmp_path)
    assert code == 2
    assert not names & {*HEAVY, "structlog", "rich"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_an_incomplete_report(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("schema_version: 1\nkind: fake\n")
    line = [sys.executable, "-c", SLEEPER, "check", "c.yaml", "--format", "json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"started\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert json.loads(out)["incomplete"] is True
    assert b"Traceback" not in err


def test_nohup_is_obeyed() -> None:
    """What is ignored when the program starts stays ignored."""
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); sys.argv[1:] = ['version']\n"
    code += "import contract.cli.main as m\nact = m.main\n"
    code += "m.main = lambda words: os.kill(os.getpid(), signal.SIGHUP) or act(words)\nm.run()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([sys.executable, "-m", "contract", "explain", "contract.kind"], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (2, b"")


def test_a_reader_of_the_help_page_that_goes_away(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([sys.executable, "-m", "contract", "--help"], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (2, b"")


def test_a_full_disk(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([sys.executable, "-m", "contract", "version"], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
    assert ran.returncode == 2
    assert b"files.write-failed" in ran.stderr


def test_a_closed_stdout(tmp_path: Path) -> None:
    ran = subprocess.run(["/bin/sh", "-c", f"'{sys.executable}' -m contract version >&-"], stderr=subprocess.PIPE, cwd=tmp_path)
    assert ran.returncode == 2
    assert b"Traceback" not in ran.stderr


def test_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    name = "中文.yaml"
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "contract", "check", name, "--format", "text"]
    ran = subprocess.run(line, capture_output=True, cwd=tmp_path, env=environ)
    assert ran.returncode == 2
    assert b"Traceback" not in ran.stderr
    assert ran.stdout.isascii()


def test_without_home(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-m", "contract", "version"], capture_output=True, cwd=tmp_path, env={})
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_place_of_an_error_is_said_once(tmp_path: Path) -> None:
    """Before the message, unless the message begins with it."""
    ran = subprocess.run([sys.executable, "-m", "contract", "show", "nope"], capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, ran.stderr.count("nope")) == (2, 1), ran.stderr
    ran = subprocess.run(
        [sys.executable, "-m", "contract", "read", "nope", "--engine", "vllm"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (ran.returncode, ran.stderr.count("nope")) == (2, 1), ran.stderr
