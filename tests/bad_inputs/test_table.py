"""Every number has a test that exists, with the outcome that the table states, and docs/bad-inputs.md is the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from incidents.test_incidents import CASES

from .table import REJECT, ROWS, VIOLATION, WARNING, page

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "bad-inputs.md"
REFERENCES = [(n, test) for n, row in sorted(ROWS.items()) for test in row.tests]


def test_every_number_is_there() -> None:
    assert list(ROWS) == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 110
    assert all(row.tests for row in ROWS.values())


@pytest.mark.parametrize(("number", "test"), REFERENCES, ids=[f"{n}-{t}" for n, t in REFERENCES])
def test_the_test_exists(number: int, test: str) -> None:
    if test.startswith("incident:"):
        case = next(c for c in CASES if c.name == test.removeprefix("incident:"))
        assert ROWS[number].outcome == {0: WARNING, 1: VIOLATION, 2: REJECT}[case.exit]
        return
    file, _, name = test.partition("::")
    text = (TESTS / file).read_text(encoding="utf-8")
    if name.startswith("["):
        assert f'id="{name.strip("[]")}"' in text
    else:
        assert re.search(rf"^def {name}\(", text, flags=re.M)


def test_the_page_is_current(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
