"""Golden files: what every renderer makes of every sample, compared byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares a text with the committed one; ``--update-goldens`` writes it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-goldens"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is not committed; look at it after pytest --update-goldens"
        assert text == path.read_text(encoding="utf-8")

    return compare
