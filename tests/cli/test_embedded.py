"""The command line inside of another program, which has put a stream of its own in the place of stdout."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from cli.fake import FakeKind, report
from contract.cli.main import main


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_text_stream_gets_the_report(kind: FakeKind, spec: str, form: str) -> None:
    kind.result = report(passed=1, failed=1)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["check", spec, "--format", form]) == 1
    assert "internal error" not in err.getvalue()
    assert ("<!doctype html>" if form == "html" else "violated") in out.getvalue().lower()
    if form == "json":
        assert json.loads(out.getvalue())["exit_code"] == 1


def test_bytes_below_a_text_stream_are_the_same(kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    plain, below = io.StringIO(), io.BytesIO()
    with redirect_stdout(plain):
        assert main(["check", spec]) == 0
    wrapper = io.TextIOWrapper(below, encoding="utf-8")
    with redirect_stdout(wrapper):
        assert main(["check", spec]) == 0
    assert below.getvalue().decode() == plain.getvalue()
