"""Records are the same wherever they were made, and an engine's environment reaches nothing of the project."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tests.readings.test_further import FURTHER
from tools.engines.__main__ import environment, placeless

ABSOLUTE: Final = re.compile(r"(?<![\w.$/\-:])/[A-Za-z][\w.\-]*/[\w.\-]")
"""A slash with two names behind it, and nothing in front that would make it a relative path, a variable's or an address's."""


def test_no_path_of_the_machine_is_left_in_a_record(tmp_path: Path) -> None:
    row = {"error": f"in {tmp_path}/sglang/x: /somewhere/env/lib/python3/site-packages/sglang/a.py", "path": f"{tmp_path}/sglang/x"}
    assert placeless(row, tmp_path) == {"error": "in $WORK/sglang/x: site-packages/sglang/a.py", "path": "$WORK/sglang/x"}


@pytest.mark.parametrize("engine", sorted(FURTHER))
def test_the_committed_records_name_no_absolute_path(engine: str) -> None:
    assert ABSOLUTE.search(f"in {Path.home() / 'engine' / 'a.py'}: x")
    assert not ABSOLUTE.findall(json.dumps(FURTHER[engine]))


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_the_engines_see_the_probe_and_not_the_project(engine: str) -> None:
    root = Path(__file__).parents[2]
    given = environment(engine)
    assert str(root / "tools" / "engines") in given["PYTHONPATH"].split(":")
    assert str(root) not in given["PYTHONPATH"].split(":")
    assert given["OMP_NUM_THREADS"] == "1"
