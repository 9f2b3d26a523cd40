"""One target and one clean pair for the whole folder; tests that change files copy them."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest

from verify.scenario import Scenario, build, write_target


@pytest.fixture(scope="session")
def target_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target")


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory, target_dir: Path) -> Scenario:
    """A pair trained on [0, 3, 5], as the seed's on [embedding, a, b]. Not to be changed."""
    return build(tmp_path_factory.mktemp("pair") / "drafter", target_dir)


@pytest.fixture(scope="session")
def right(clean: Scenario) -> Path:
    """The capture of an engine that feeds what training fed."""
    return clean.capture((0, 3, 5), "right")


@pytest.fixture
def scenario(clean: Scenario, tmp_path: Path) -> Scenario:
    """A copy of the clean pair that may be changed."""
    folder = tmp_path / "drafter"
    shutil.copytree(clean.folder, folder)
    return Scenario(folder, clean.target_dir, clean.target, copy.deepcopy(clean.contract))
