"""SmolLM2-135M converted once, and the two drafters written out once; nothing of it is changed by a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_contract.engines.target import Target, load_target
from smollm2.assets import DRAFTERS, write_pair
from smollm2.target import write_target


@pytest.fixture(scope="session")
def target_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("smollm2") / "target")


@pytest.fixture(scope="session")
def target(target_dir: Path) -> Target:
    """In bfloat16, as the states of training were recorded."""
    return load_target(target_dir, dtype="bfloat16", device="cpu")


@pytest.fixture(scope="session")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The contract of each drafter, with its files beside it."""
    folder = tmp_path_factory.mktemp("drafters")
    return {drafter: write_pair(drafter, folder / f"drafter-{drafter}") for drafter in DRAFTERS}
