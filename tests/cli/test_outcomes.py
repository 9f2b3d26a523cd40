"""Whatever a body does, the streams and the exit code say it in the one agreed way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from cli.conftest import Point, Ran
from cli.fake import FakeKind, report
from contract.answers import Answer
from contract.errors import InputRejected, InternalError
from contract.findings import ExitCode, Where
from contract.report.schema import report_schema

Run = Callable[..., Ran]
REJECTED = InputRejected("a \x1b[31mbad\n::error file", rule="files.unreadable", fix="Mend it.", where=Where(file="x.safetensors", line=3))


@pytest.mark.parametrize(("failed", "passed", "code"), [(0, 1, 0), (1, 1, 1), (0, 0, 3)])
def test_the_exit_code_is_the_verdict(run_line: Run, kind: FakeKind, spec: str, failed: int, passed: int, code: int) -> None:
    kind.result = report(failed=failed, passed=passed)
    ran = run_line("check", spec)
    assert (ran.code, ran.err) == (code, "")
    assert f"(exit {code})" in ran.out


def test_stdout_carries_only_the_report_without_a_file(run_line: Run, kind: FakeKind, spec: str, tmp_path: Path) -> None:
    kind.result = report(failed=1)
    ran = run_line("check", spec, "--format", "junit=out.xml", "--format", "json", "--format", "markdown=out.md")
    assert json.loads(ran.out)["exit_code"] == ran.code == 1
    assert ElementTree.parse(tmp_path / "out.xml").find(".//failure") is not None
    assert (tmp_path / "out.md").read_text().startswith("## contract violated")
    assert run_line("check", spec, "--format", "json=only.json").out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.yaml", "only.json", "out.md", "out.xml"]


def test_a_user_error_is_one_line_and_exit_2(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = REJECTED
    ran = run_line("check", spec)
    line = "error: x.safetensors:3: a \\x1b[31mbad\\n\\x3a:error file [files.unreadable], fix: Mend it.\n"
    assert (ran.code, ran.out, ran.err) == (2, "", line)


@pytest.mark.parametrize("form", ["json", "junit", "text", "github"])
def test_a_user_error_is_in_the_report_that_was_asked_for(run_line: Run, kind: FakeKind, spec: str, form: str) -> None:
    kind.result = REJECTED
    ran = run_line("check", spec, "--format", form)
    assert ran.code == 2
    assert "files.unreadable" in ran.out
    assert ran.err.startswith("error: ")


def test_all_problems_of_a_contract_are_told(run_line: Run, kind: FakeKind, spec: str) -> None:
    from contract.source import read_yaml
    from contract.structs import load_typed

    Path(spec).write_text("schema_version: 1\nkind: fake\nkimd: x\nother: y\n")

    def body() -> Answer:
        load_typed(read_yaml(spec), kind.contract_struct())
        raise AssertionError("the contract is invalid")

    kind.result = body
    ran = run_line("show", spec, "--format", "json")
    document = json.loads(ran.out)
    jsonschema.Draft7Validator(report_schema()).validate(document)
    assert [c["where"]["line"] for c in document["checks"]] == [3, 4]
    assert len(ran.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("kind: [", "contract.yaml-syntax"),
        ("schema_version: 1\nkind: faek\n", "contract.kind"),
        ("schema_version: 7\nkind: fake\n", "contract.schema-version"),
    ],
)
def test_a_contract_that_names_no_kind(run_line: Run, kind: FakeKind, spec: str, text: str, rule: str) -> None:
    Path(spec).write_text(text)
    ran = run_line("verify", spec, "--format", "json")
    assert ran.code == 2
    assert json.loads(ran.out)["checks"][0]["rule"] == rule
    assert kind.asked is None


def test_an_interrupted_body_leaves_an_incomplete_report(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = KeyboardInterrupt()
    ran = run_line("verify", spec, "--format", "json")
    document = json.loads(ran.out)
    assert (ran.code, document["incomplete"], document["checks"][0]["rule"]) == (2, True, "tool.interrupted")
    assert ran.err.startswith("error: interrupted")


@pytest.mark.parametrize("error", [InternalError("we"), ZeroDivisionError("\x1b[31m\n::error::x"), RecursionError(), MemoryError()])
def test_a_fault_of_this_program_is_exit_2_with_a_traceback(run_line: Run, kind: FakeKind, spec: str, error: Exception) -> None:
    kind.result = error
    ran = run_line("check", spec, "--format", "json")
    assert ran.code == 2
    assert "Traceback" in ran.err
    assert "report it" in ran.err
    assert "\x1b" not in ran.err
    assert "\n::" not in ran.err
    assert json.loads(ran.out)["checks"][0]["rule"] == "tool.internal-error"


def test_a_file_that_cannot_be_written(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    ran = run_line("check", spec, "--format", "json=no/such/folder.json", "--format", "json")
    assert ran.code == json.loads(ran.out)["exit_code"] == 2
    assert [c["rule"] for c in json.loads(ran.out)["checks"]] == ["fake.rule", "files.write-failed"]
    assert "files.write-failed" in ran.err


def test_a_policy_that_is_not_there_is_named_once_and_not_called_a_contract(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    ran = run_line("check", spec, "--policy", "absent.yaml")
    assert ran.code == 2
    assert ran.err.startswith("error: absent.yaml cannot be read: ")
    assert ran.err.count("absent.yaml") == 1
    assert "Name the contract file" not in ran.err


def test_no_report_takes_the_place_of_the_contract(run_line: Run, kind: FakeKind, spec: str, tmp_path: Path) -> None:
    before, other = Path(spec).read_bytes(), tmp_path / "other.json"
    kind.result = report(passed=1)
    ran = run_line("check", spec, "--format", f"json={spec}", "--format", f"sarif={other}", "--format", "json")
    assert ran.code == json.loads(ran.out)["exit_code"] == 2
    assert "cli.not-together" in ran.err
    assert Path(spec).read_bytes() == before
    assert other.exists()
    assert run_line("check", spec, "--format", f"json={tmp_path / 'fine.json'}").code == 0


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "sub/x.pt", "contract.waivers.yaml"])
def test_no_report_takes_the_place_of_a_models_file(name: str, run_line: Run, kind: FakeKind, spec: str) -> None:
    path = Path(spec).parent / name
    path.parent.mkdir(exist_ok=True)
    kind.result = report(passed=1)
    assert run_line("check", spec, "--format", f"json={path}").code == 0  # there was none
    path.write_bytes(b"weights")
    assert run_line("check", spec, "--format", f"json={path}").code == 2
    assert path.read_bytes() == b"weights"


def test_answers_are_text_or_json(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = Answer(text="a\x1b[1m\n::error::b\nc", data={"x": float("nan")}, exit_code=ExitCode.VIOLATED)
    ran = run_line("show", spec)
    assert (ran.code, ran.out) == (1, "a\\x1b[1m\n\\x3a:error\\x3a:b\nc\n")
    assert json.loads(run_line("show", spec, "--format", "json").out) == {"x": "nan"}
    ran = run_line("show", spec, "--format", "junit")
    assert ran.code == 2
    assert "cli.format-not-available" in ran.err
    assert ElementTree.fromstring(ran.out).find(".//error") is not None


@pytest.mark.parametrize("line", ["kind: {}", "schema_version: '{}'", "schema_version: -{}"])
def test_the_remedy_is_seen_after_a_long_value(run_line: Run, kind: FakeKind, spec: str, line: str) -> None:
    Path(spec).write_text("schema_version: 1\nkind: fake\n".replace(line.partition(" ")[0], "#") + line.format("1" * 5000) + "\n")
    ran = run_line("check", spec)
    assert ran.code == 2
    assert ", fix: " in ran.err
    assert len(ran.err) < 600


def test_the_remedy_is_seen_after_a_long_message(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = InputRejected("x" * 5000, rule="files.unreadable", fix="Mend it.")
    ran = run_line("check", spec)
    assert (ran.code, ran.err.endswith("(5000 characters) [files.unreadable], fix: Mend it.\n")) == (2, True)


def test_the_step_summary(run_line: Run, kind: FakeKind, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", os.fspath(summary))
    kind.result = report(failed=1)
    assert run_line("check", spec, "--format", "github").out.startswith("::error ")
    assert summary.read_text().startswith("## contract violated")
    summary.write_bytes(b"x" * (1024 * 1024 - 40))
    run_line("check", spec, "--format", "github")
    assert summary.stat().st_size <= 1024 * 1024


def test_a_report_goes_to_stdout_or_to_a_file_and_replaces_nothing_else(run_line: Run, kind: FakeKind, spec: str, tmp_path: Path) -> None:
    kind.result = report(passed=1)
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    os.mkfifo(tmp_path / "fifo")
    for place in (os.devnull, "stdout", "fifo", "a\0b"):
        ran = run_line("check", spec, "--format", f"json={place}", "--format", "sarif")
        assert ran.code == 2
        assert "[files.write-failed], fix: " in ran.err
        assert json.loads(ran.out)["runs"]
    assert json.loads(run_line("check", spec, "--format", "json").out)["exit_code"] == 0
    assert run_line("check", spec, "--format", "json=-").code == 0
    assert json.loads(Path("-").read_bytes())["exit_code"] == 0, "a dash is a name like any other"


@pytest.mark.parametrize("read", [False, True])
def test_a_step_summary_that_is_a_pipe_is_not_waited_for(
    run_line: Run, kind: FakeKind, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: bool
) -> None:
    summary = tmp_path / "summary.md"
    os.mkfifo(summary)
    reader = os.open(summary, os.O_RDONLY | os.O_NONBLOCK) if read else None
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", os.fspath(summary))
    kind.result = report(failed=1)
    ran = run_line("check", spec, "--format", "github")
    assert ran.code == 2
    assert "files.write-failed" in ran.err
    assert ran.out.startswith("::error ")
    if reader is not None:
        assert os.read(reader, 1) == b""
        os.close(reader)


@pytest.mark.parametrize("error", [ImportError("no module x"), SyntaxError("bad"), ValueError("config")])
def test_a_broken_kind_is_named(run_line: Run, installed: dict[str, Point], spec: str, error: Exception) -> None:
    installed["fake"] = Point(error)
    ran = run_line("check", spec)
    assert ran.code == 2
    assert "tool.kind-broken" in ran.err
    assert run_line("--help").code == 0
    assert run_line("doctor").code == 2
    assert run_line("explain", "contract.yaml-tab").code == 0


def test_an_object_that_is_no_kind_is_a_fault(run_line: Run, installed: dict[str, Point], spec: str) -> None:
    installed["fake"] = Point(object())
    for line in (["--help"], ["check", spec]):
        ran = run_line(*line)
        assert ran.code == 2
        assert "fake:KIND is no contract.kinds.Kind" in ran.err


def test_no_kind_at_all(run_line: Run, installed: dict[str, Point], spec: str) -> None:
    assert run_line("doctor").code == 2
    assert "check" not in run_line("--help").out
    assert run_line("check", spec).code == 2
