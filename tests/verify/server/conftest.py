"""The demo contract, and a run against an imitation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.findings import Check, Status
from contract.limits import DEFAULT_LIMITS, Limits
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.verify.server.client import API_KEY
from eagle3_contract.verify.server.run import verify_server
from verify.server.imitations import Imitation, served

Run = Callable[..., Report]
ROUNDS, ACCEPTED = 116, 148
"""Of the recorded answers, by both engines."""

DEMO = Path(__file__).parents[3] / "eagle3_contract" / "demo" / "data"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)


@dataclass(frozen=True)
class Case:
    """A contract that may be changed."""

    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "contract.yaml"

    def edit(self, old: str, new: str) -> None:
        text = self.spec.read_text()
        assert text.count(old) == 1, old
        self.spec.write_text(text.replace(old, new))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """The demo pair's drafter-a, in the recipe of SGLang."""
    shutil.copytree(DEMO / "drafter-a", tmp_path / "drafter-a")
    return Case(tmp_path / "drafter-a")


@pytest.fixture
def exported(case: Case, tmp_path: Path) -> Case:
    """The same for vLLM, as `contract export` writes it."""
    from contract.requests import ExportRequest
    from eagle3_contract.commands.export import export

    request = ExportRequest(spec=str(case.spec), engines=("vllm==0.32.0",), out=str(tmp_path / "vllm-a"))
    assert export(request).exit_code == 0
    shutil.copytree(case.folder / "samples", tmp_path / "vllm-a" / "samples", dirs_exist_ok=True)
    found = Case(tmp_path / "vllm-a")
    found.edit("    path: null\n", "    path: samples\n")
    return found


@pytest.fixture
def run() -> Iterator[Callable[..., Report]]:
    """``run(case, imitation, **fields of the request)``: the report."""
    with ExitStack() as stack:

        def one(case: Case, imitation: Imitation, *, limits: Limits = DEFAULT_LIMITS, **more: Any) -> Report:
            url = stack.enter_context(served(imitation))
            return verify_server(VerifyRequest(spec=str(case.spec), server=url, **more), limits=limits)

        yield one


def told(report: Report, rule: str) -> list[Check]:
    """The checks of a rule."""
    return [c for c in report.checks if c.rule == rule]


def one(report: Report, rule: str) -> Check:
    """The only check of a rule."""
    (check,) = told(report, rule)
    return check


def broken(report: Report) -> dict[str, Status]:
    """Rules that keep the contract from being kept."""
    return {c.rule: c.status for c in report.checks if c.status is Status.FAILED or (c.status is Status.UNKNOWN and c.required)}
