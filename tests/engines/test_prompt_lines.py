"""The file of prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import InputRejected, LimitExceeded
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.engines.prompt_lines import prompt_lines

GOOD = '{"id": "a", "input_ids": [1, 2]}\n\n{"input_ids": [0], "text": "more"}\n'


def test_lines_are_prompts(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(GOOD)
    assert prompt_lines(path) == [("a", [1, 2]), ("prompt-0003", [0])]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"input_ids": []}',
        '{"input_ids": "text"}',
        '{"input_ids": [1, true]}',
        '{"input_ids": [1.0]}',
        '{"input_ids": [-1]}',
        '{"input_ids": [2147483648]}',
        '{"id": 3, "input_ids": [1]}',
        '{"id": "a", "input_ids": [7]}',
    ],
)
def test_a_line_that_is_no_prompt_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f"{GOOD}{line}\n")
    with pytest.raises(InputRejected) as caught:
        prompt_lines(path)
    assert caught.value.rule == "engine.prompts-file"
    assert caught.value.where is not None
    assert caught.value.where.line == 4


def test_the_file_is_bounded_and_there(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(GOOD)
    with pytest.raises(LimitExceeded):
        prompt_lines(path, DEFAULT_LIMITS.lowered(json_bytes=10))
    with pytest.raises(InputRejected):
        prompt_lines(tmp_path / "none.jsonl")
