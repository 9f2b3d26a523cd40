"""Every row of the survey of public reports is accounted for: by a case that reproduces it, or by the reason why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from incidents.test_incidents import CASES

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "corpus.yaml").read_text(encoding="utf-8"))
SURVEYED = 124
STATIC = frozenset("CHW")
ELSEWHERE = (
    *("not EAGLE-3", "not established", "no drafter", "releases", "released", "not among the engines", "platform", "not settled"),
    "trainer's code",
)
"""What a reason may be for a row that a config, a header or values could show."""


def test_the_survey_is_whole() -> None:
    numbers = [row["row"] for row in ROWS]
    assert len(numbers) == SURVEYED
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("row", ROWS, ids=lambda r: str(r["row"]))
def test_row_is_accounted_for(row: dict[str, Any]) -> None:
    assert set(row) <= {"row", "report", "mode", "catch", "cases", "reason", "note"}
    assert row["report"]
    assert row["mode"] in ("silent", "loud", "unstated")
    assert set(row["catch"]) <= set("CHWDA")
    names = {case.name for case in CASES}
    assert ("cases" in row) != ("reason" in row)
    assert set(row.get("cases", ())) <= names
    if "reason" in row and STATIC & set(row["catch"]):
        assert any(words in row["reason"] for words in ELSEWHERE), row["reason"]


def test_most_of_what_files_can_show_is_reproduced() -> None:
    """Of the rows about EAGLE-3 whose cause is established."""
    due = [r for r in ROWS if STATIC & set(r["catch"]) and not any(w in r.get("reason", "") for w in ELSEWHERE[:2])]
    assert len(due) > 60
    assert sum("cases" in r for r in due) >= 0.85 * len(due)
