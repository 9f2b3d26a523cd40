"""What is written on the command line arrives in the request, and what makes no sense is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest

from cli.conftest import Point, Ran
from cli.fake import FakeKind, report
from contract import __version__
from contract.cli.group import SUMMARIES
from contract.cli.params import Output, parse_outputs, parse_serve_args
from contract.cli.perform import subject_of
from contract.kinds import COMMANDS
from contract.requests import CheckRequest, ReadRequest, VerifyRequest

Run = Callable[..., Ran]


def test_check(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    line = ["check", spec, "--engine", "vllm[v2]==0.32.0", "--engine", "sglang", "--target", "t"]
    run_line(*line, "--serve-args", "sglang=--a=b --c", "--integrity", "digests")
    assert kind.asked == CheckRequest(
        spec="c.yaml", engines=("vllm[v2]==0.32.0", "sglang"), target="t", serve_args={"sglang": "--a=b --c"}, integrity="digests"
    )
    assert subject_of(kind.asked) == {"spec": "c.yaml", "engines": ["vllm[v2]==0.32.0", "sglang"], "target": "t"}


def test_read(run_line: Run, kind: FakeKind) -> None:
    run_line("read", "d", "--engine", "sglang==0.5.23")
    assert kind.asked == ReadRequest(drafter="d", engines=("sglang==0.5.23",))


def test_verify(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    run_line("verify", spec, "--samples", "s", "--capture", "b", "--target", "t", "--fail-fast", "--allow-pickle", "--device", "cpu")
    assert kind.asked == VerifyRequest(
        spec="c.yaml", samples="s", capture="b", target="t", fail_fast=True, allow_pickle=True, device="cpu", workers=None
    )


def test_verify_many(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    run_line("verify", spec, "--workers", "3", "--resume", "j", "--executor", "ray")
    assert kind.asked == VerifyRequest(spec="c.yaml", workers=3, resume="j", executor="ray")


@pytest.mark.parametrize(
    "line",
    [
        ("check",),
        ("check", "c.yaml", "--integrity", "some"),
        ("check", "c.yaml", "--engnie", "vllm"),
        ("check", "c.yaml", "--format", "yaml"),
        ("check", "c.yaml", "--format", "json="),
        ("check", "c.yaml", "--format", "json", "--format", "text"),
        ("check", "c.yaml", "--format", "json=a", "--format", "text=a"),
        ("check", "c.yaml", "--serve-args", "sglang==0.5.23"),
        ("check", "c.yaml", "--serve-args", "sglang=a", "--serve-args", "sglang=b"),
        ("verify", "c.yaml", "--capture", "b", "--engine", "vllm"),
        ("verify", "c.yaml", "--capture", "b", "--workers", "2"),
        ("verify", "c.yaml", "--engine", "vllm", "--resume", "j"),
        ("verify", "c.yaml", "--workers", "0"),
        ("read", "d"),
        ("nonsense",),
        ("capture", "c.yaml"),
    ],
)
def test_nonsense_is_exit_2_and_nothing_runs(run_line: Run, kind: FakeKind, spec: str, line: tuple[str, ...]) -> None:
    ran = run_line(*line)
    assert (ran.code, ran.out) == (2, "")
    assert "Error" in ran.err
    assert kind.asked is None


@pytest.mark.parametrize(
    "line",
    [("check", "--\u202eflag"), ("\u202enonsense",), ("check", "c.yaml", "--format", "\x1b[31m"), ("check", "c.yaml", "x\n::error::y")],
)
def test_what_is_quoted_of_the_command_line_does_not_act(run_line: Run, kind: FakeKind, spec: str, line: tuple[str, ...]) -> None:
    ran = run_line(*line)
    assert ran.code == 2
    assert "Error" in ran.err
    assert not {"\u202e", "\x1b"} & set(ran.err)
    assert "::error" not in ran.err


def test_a_misspelt_command_gets_a_hint(run_line: Run, kind: FakeKind) -> None:
    assert "did you mean check?" in run_line("chekc", "x").err


@pytest.mark.parametrize(
    ("value", "engine", "arguments"),
    [
        ("sglang=--x 1", "sglang", "--x 1"),
        ("sglang==0.5.23=--x=1", "sglang==0.5.23", "--x=1"),
        ("vllm[v2]==0.32.0=", "vllm[v2]==0.32.0", ""),
        ('vllm[v2]={"a": 1}', "vllm[v2]", '{"a": 1}'),
    ],
)
def test_serve_args(value: str, engine: str, arguments: str) -> None:
    assert parse_serve_args([value]) == {engine: arguments}


@pytest.mark.parametrize("value", ["", "=x", "sglang", "sglang==0.5.23", "--x 1", "a b=c"])
def test_serve_args_without_an_engine(value: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_serve_args([value])


def test_outputs() -> None:
    assert parse_outputs(["text", "json=a=b.json"]) == (Output("text"), Output("json", "a=b.json"))


def test_commands_without_a_body_are_not_listed(run_line: Run, kind: FakeKind) -> None:
    listed = {line.split()[0] for line in run_line("--help").out.partition("Commands:")[2].splitlines() if line.strip()}
    own = {"guard", "hook", "upgrade", "explain", "schema", "config", "completion", "doctor", "version"}
    assert listed == {"show", "check", "read", "verify", *own}
    assert set(COMMANDS) < set(SUMMARIES)


def test_two_kinds_need_a_name(run_line: Run, kind: FakeKind, installed: dict[str, Point]) -> None:
    other = FakeKind(name="other")
    installed["other"] = Point(other)
    assert "Name one with --kind." in run_line("read", "d", "--engine", "e").err
    assert run_line("read", "d", "--engine", "e", "--kind", "other").code == 0
    assert (kind.asked, other.asked) == (None, ReadRequest(drafter="d", engines=("e",)))
    assert "Did you mean other?" in run_line("read", "d", "--engine", "e", "--kind", "ohter").err


def test_version(run_line: Run, kind: FakeKind) -> None:
    assert run_line("--version").out == f"eagle3-contract {__version__}\n"
    assert json.loads(run_line("version", "--format", "json").out)["version"] == __version__
    assert "kinds: fake" in run_line("version").out


def test_schema(run_line: Run, kind: FakeKind) -> None:
    schema = json.loads(run_line("schema").out)
    assert (schema["$id"], schema["properties"].keys()) == ("urn:eagle3-contract:contract:fake:1", {"schema_version", "kind"})
    assert json.loads(run_line("schema", "--report").out)["title"] == "Report of eagle3-contract"


def test_explain(run_line: Run, kind: FakeKind) -> None:
    every = run_line("explain").out
    assert all(f"\n{rule} " in every for rule in ("contract.yaml-tab", "fake.rule", "files.symlink", "tool.interrupted"))
    page = run_line("explain", "fake.rule").out
    assert "It was wrong once." in page
    assert "Mend it." in page
    ran = run_line("explain", "fake.rul")
    assert (ran.code, "Did you mean fake.rule" in ran.err) == (2, True)
    assert json.loads(run_line("explain", "fake.rule", "--format", "json").out)["depth"] == "check"


def test_doctor(run_line: Run, kind: FakeKind) -> None:
    ran = run_line("doctor", "--format", "json")
    document = json.loads(ran.out)
    assert (ran.code, document["healthy"], document["kinds"]["fake"]) == (0, True, ["show", "check", "read", "verify"])
