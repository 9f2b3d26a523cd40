"""Options of the whole test suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure: no test asserts on time.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the golden files instead of comparing with them")
