"""The demo pair as every test of this folder needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from contract.files.bundle import open_bundle
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, ExitCode, Json, Status, decide
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.verify.engine_drafter.run import checks
from verify.engine_drafter.simulated import Request, Spoil, simulate, write
from verify.engine_drafter.simulated_engine import DATA, FOLDER, Engine


@dataclass
class Judged:
    """What comparison says about one bundle."""

    checks: list[Check]
    measurement: dict[str, Json] = field(default_factory=dict)

    @property
    def failed(self) -> list[Check]:
        return [c for c in self.checks if c.status is Status.FAILED]

    @property
    def rules(self) -> set[str]:
        return {c.rule for c in self.failed}

    @property
    def exit_code(self) -> ExitCode:
        return decide(self.checks)[1]

    def one(self, rule: str) -> Check:
        """The only failed check, and it must be of this rule."""
        assert [c.rule for c in self.failed] == [rule], self.text
        return self.failed[0]

    @property
    def text(self) -> str:
        return "\n".join(f"{c.status} {c.rule}: {c.message}" for c in self.checks if c.status is not Status.PASSED)


def judge(bundle: Path, folder: Path = FOLDER, *, target: Path | None = DATA / "target") -> Judged:
    """Run the comparison on a bundle of the demo pair."""
    loaded = load_contract(folder / "contract.yaml")
    source = CheckpointSource(Checkpoint.open(loaded.drafter_folder))
    of_target = None if target is None else CheckpointSource(Checkpoint.open(target))
    measurements: dict[str, Json] = {}
    folder_of_target = None if target is None else str(target)
    found = checks(open_bundle(bundle), loaded, resolve(loaded.contract), source, of_target, measurements, target_folder=folder_of_target)
    return Judged(list(found), measurements.get("engine_drafter", {}))


Run = Callable[..., Judged]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """The tensors are small: threads only cost."""
    torch.set_num_threads(1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Simulate an engine on some samples and judge the bundle that it writes."""

    def of(engine: Engine, count: int = 1, *, change: Spoil | None = None) -> Judged:
        requests: Sequence[tuple[str, Request]] = simulate(engine, count)
        return judge(write(tmp_path / "bundle", engine, requests, change))

    return of
