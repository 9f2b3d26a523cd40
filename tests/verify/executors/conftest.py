"""A pair with eleven samples, one of them unreadable and one of another layout in the copies that ask for it."""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.reporting import Report
from eagle3_contract.trainers.sample_formats.neutral import write_sample
from verify.scenario import VOCAB, Scenario, build

SAMPLES = 11
RECIPE = (0, 3, 5)


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory, target_dir: Path) -> Scenario:
    """Not to be changed."""
    scenario = build(tmp_path_factory.mktemp("many") / "drafter", target_dir)
    generator = torch.Generator().manual_seed(5)
    shutil.rmtree(scenario.samples)
    scenario.samples.mkdir()
    manifest = {}
    for i in range(SAMPLES):
        ids_T = torch.randint(0, VOCAB, (12 + i,), generator=generator)
        forward = scenario.target.forward(ids_T)
        mask_T = torch.ones(len(ids_T), dtype=torch.uint8)
        mask_T[: i % 4] = 0
        file = scenario.samples / f"s{i}.safetensors"
        write_sample(
            file, input_ids_T=ids_T, states_THk=[forward.states[s] for s in RECIPE], loss_mask_T=mask_T,
            last_TG=forward.states["final_norm"], boundaries=RECIPE, last="final_norm",
        )  # fmt: skip
        manifest[file.name] = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    scenario.rewrite(lambda c: c["training"]["samples"].update(count=SAMPLES, manifest=manifest))
    return scenario


@pytest.fixture
def own(many: Scenario, tmp_path: Path) -> Scenario:
    """A copy that may be changed."""
    folder = tmp_path / "drafter"
    shutil.copytree(many.folder, folder)
    return Scenario(folder, many.target_dir, many.target, copy.deepcopy(many.contract))


Told = tuple[dict[str, Any], list[tuple[object, ...]]]


@pytest.fixture(scope="session")
def told() -> Callable[[Report], Told]:
    """Everything of a report that must not depend on who measured: all figures, and all checks."""

    def of(report: Report) -> Told:
        return dict(report.measurements), [(c.rule, c.status, c.message, c.expected, c.actual) for c in report.checks]

    return of
