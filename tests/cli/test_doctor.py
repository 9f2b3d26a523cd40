"""``contract doctor``: what kinds say of interpreters is in the text and in the JSON; the exit code is about the static depth alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from cli.conftest import Point, Ran
from cli.fake import FakeKind
from contract.errors import ToolError

Run = Callable[..., Ran]


class Asked(FakeKind):
    """A kind that knows an engine."""

    def environment(self, python: str | None) -> tuple[Any, Sequence[str]]:
        if python == "/broken":
            raise ToolError("/broken cannot be asked", rule="tool.interrupted", fix="Name another.")
        where = python or "this one"
        return {"executable": where, "missing": [{"what": "an engine", "fix": "get it"}]}, [f"engines of {where}", "  missing: an engine"]


def test_this_interpreter(run_line: Run, installed: dict[str, Point]) -> None:
    installed["fake"] = Point(Asked())
    ran = run_line("doctor")
    assert ran.code == 0
    assert "engines of this one\n  missing: an engine\n" in ran.out
    assert json.loads(run_line("doctor", "--format", "json").out)["environments"] == [
        {"executable": "this one", "missing": [{"what": "an engine", "fix": "get it"}]}
    ]


def test_named_interpreters(run_line: Run, installed: dict[str, Point]) -> None:
    installed["fake"] = Point(Asked())
    ran = run_line("doctor", "--engine-python", "/a", "--engine-python", "/b", "--format", "json")
    assert [found["executable"] for found in json.loads(ran.out)["environments"]] == ["/a", "/b"]


def test_interpreter_that_cannot_be_asked(run_line: Run, installed: dict[str, Point]) -> None:
    installed["fake"] = Point(Asked())
    ran = run_line("doctor", "--engine-python", "/broken")
    assert ran.code == 2
    assert "/broken cannot be asked" in ran.err


def test_kind_that_knows_no_engine(run_line: Run, kind: FakeKind) -> None:
    assert json.loads(run_line("doctor", "--format", "json").out)["environments"] == []


def test_broken_kind_is_still_told(run_line: Run, installed: dict[str, Point]) -> None:
    installed["bad"] = Point(ImportError("no"))
    installed["fake"] = Point(Asked())
    ran = run_line("doctor")
    assert ran.code == 2
    assert "engines of this one" in ran.out
    assert "kind bad: the kind 'bad' cannot be imported" in ran.out
