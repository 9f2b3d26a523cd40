"""The real command line in this process, with a fake drafter family installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.fake import FakeKind
from contract import kinds
from contract.cli.main import main


@dataclass
class Point:
    """Stands for an importlib.metadata.EntryPoint."""

    kind: object
    value: str = "fake:KIND"

    def load(self) -> object:
        if isinstance(self.kind, BaseException):
            raise self.kind
        return self.kind


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Point]:
    """The entry points that are found; a test may add to them."""
    points: dict[str, Point] = {}
    monkeypatch.setattr(kinds, "_entry_points", lambda: points)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return points


@pytest.fixture
def kind(installed: dict[str, Point]) -> FakeKind:
    fake = FakeKind()
    installed["fake"] = Point(fake)
    return fake


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("schema_version: 1\nkind: fake\n")
    return "c.yaml"


@pytest.fixture
def run_line(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """``run_line("check", "c.yaml")`` runs the command line; nothing is caught for it."""

    def run(*argv: str) -> Ran:
        code = main(argv)
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out.decode(), captured.err.decode())

    return run
