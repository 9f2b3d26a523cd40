"""The demo pair, and what the simulated engine made of some of its prompts; nothing of it is changed by a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from contract.files.checkpoint import Checkpoint
from contract.limits import DEFAULT_LIMITS
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.engines.target import Target, load_target
from eagle3_contract.engines.transformers import file_digests
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.trainers.samples import find_samples, load_sample
from eagle3_contract.verify.run import verify
from verify.engine_runs.simulate import Engine, Request, write

DEMO = Path(str(files("eagle3_contract.demo"))) / "data"
NEW = 36
"""Tokens that the engine generates behind each prompt."""


@dataclass(frozen=True)
class Demo:
    """The pair and its engine. ``plain`` are the requests of an undisturbed run."""

    target: Target
    drafter: Drafter
    engine: Engine
    samples: list[TrainingSample]
    plain: list[Request]

    def prompt(self, i: int) -> list[int]:
        return self.samples[i].input_ids_T[:24].tolist()

    def write(self, out: Path, requests: list[Request], **more: object) -> Path:
        digests = {n: d for n, d in file_digests(DEMO / "drafter-a").items() if n in ("config.json", "model.safetensors")}
        return write(out, requests, recipe=self.engine.recipe, layers=12, drafter=digests, **more)  # type: ignore[arg-type]

    def verify(self, bundle: Path, **more: object) -> Report:
        request = VerifyRequest(
            spec=str(DEMO / "drafter-a" / "contract.yaml"), capture=str(bundle), target=str(DEMO / "target"), device="cpu",
        )  # fmt: skip
        return verify(dataclasses.replace(request, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def demo() -> Demo:
    loaded = load_contract(str(DEMO / "drafter-a" / "contract.yaml"), limits=DEFAULT_LIMITS)
    reading = resolve(loaded.contract)
    target = load_target(DEMO / "target", dtype="float32", device="cpu")
    own, targets = (CheckpointSource(Checkpoint.open(DEMO / name, limits=DEFAULT_LIMITS)) for name in ("drafter-a", "target"))
    drafter = Drafter(reading.wiring, own, target_source=targets)
    engine = Engine(target, drafter, reading.recipe)
    samples = [load_sample(f, allow_pickle=False) for f in find_samples(DEMO / "drafter-a" / "samples")]
    found = Demo(target, drafter, engine, samples, [])
    found.plain.extend(engine.generate(f"r{i}", found.prompt(i), NEW, sample=s.name) for i, s in enumerate(samples))
    return found


@pytest.fixture(scope="session")
def clean(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the undisturbed run."""
    return demo.write(tmp_path_factory.mktemp("clean") / "bundle", demo.plain)


@pytest.fixture
def rewritten(demo: Demo, tmp_path: Path) -> Callable[[Callable[[Request], Request | None]], Path]:
    """The undisturbed run with its requests changed, or left out."""

    def make(change: Callable[[Request], Request | None]) -> Path:
        copies = [
            dataclasses.replace(r, tensors={k: x.clone() for k, x in r.tensors.items()}, forwards=list(r.forwards)) for r in demo.plain
        ]
        return demo.write(tmp_path / "changed", [r for c in copies if (r := change(c)) is not None])

    return make


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-5))
