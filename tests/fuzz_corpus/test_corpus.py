"""Every committed input, and every input that once broke a reader, goes through its target; a few thousand mutations of them too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tools.fuzz.__main__ import CORPUS, at_random, corpus, main, mutated
from tools.fuzz.targets import TARGETS

INPUTS = [(target, file) for target in TARGETS for file in sorted((CORPUS / target).iterdir())]


@pytest.mark.parametrize(("target", "file"), INPUTS, ids=[f"{target}/{file.name}" for target, file in INPUTS])
def test_no_input_breaks_a_reader(target: str, file: Path) -> None:
    TARGETS[target](file.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_mutations_break_nothing(target: str) -> None:
    seeds, rng = corpus(target), random.Random(20)
    for _ in range(150):
        TARGETS[target](mutated(rng.choice(seeds), seeds, rng))


def test_every_folder_belongs_to_a_target() -> None:
    assert {p.name for p in CORPUS.iterdir() if p.is_dir() and p.name != "__pycache__"} == TARGETS.keys()


def test_an_input_that_breaks_a_reader_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(data: bytes) -> None:
        raise ValueError(data[:1])

    monkeypatch.setattr("tools.fuzz.__main__.TARGETS", {"json": broken})
    assert main(["--random", "--seconds", "5", "--crashes", str(tmp_path)]) == 1
    assert len(list((tmp_path / "json").iterdir())) == 1
    assert "ValueError" in capsys.readouterr().out
    monkeypatch.setattr("tools.fuzz.__main__.TARGETS", {"json": lambda data: None})
    assert at_random("json", 0.05, tmp_path) == 0
