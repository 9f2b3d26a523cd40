"""One target for all tests: a random Llama of 8 layers whose boundaries are well apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_contract.engines.target import Target, load_target
from tests.verify.scenario import write_target


@pytest.fixture(scope="session")
def target_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("init") / "target")


@pytest.fixture(scope="session")
def target(target_dir: Path) -> Target:
    return load_target(target_dir)
