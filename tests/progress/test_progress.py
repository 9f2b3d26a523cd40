"""Bars on a terminal, nothing anywhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.progress import Tick, progress, shown_by, shown_on

WORK = """
import os, sys
from contract.progress import progress, shown_on
with shown_on(sys.stderr, os.environ):
    with progress(3, "samples of \\x1b[31ma\\n::error::b") as tick:
        for _ in range(3):
            tick()
        if len(sys.argv) > 1:
            raise KeyboardInterrupt
print("report", "rich" in sys.modules)
"""


class Counter:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.done: list[tuple[str, int | None, int]] = []

    @contextmanager
    def task(self, total: int | None, label: str) -> Iterator[Tick]:
        steps = 0

        def tick(n: int = 1) -> None:
            nonlocal steps
            steps += n

        self.open.append(label)
        try:
            yield tick
        finally:
            self.open.remove(label)
            self.done.append((label, total, steps))


def on_terminal(*argv: str, **environ: str) -> tuple[int, str, str]:
    """Exit code, stdout, and what a terminal on stderr got."""
    terminal, end = pty.openpty()
    found = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR")} | {"TERM": "xterm-256color", **environ}
    ran = subprocess.run([sys.executable, *argv], stdout=subprocess.PIPE, stderr=end, env=found, text=True, check=False)
    os.close(end)
    got = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        got += data
    os.close(terminal)
    return ran.returncode, ran.stdout, got.decode()


@given(st.one_of(st.none(), st.integers(0, 5)), st.lists(st.integers(0, 3)))
def test_every_tick_arrives(total: int | None, ticks: list[int]) -> None:
    counter = Counter()
    with shown_by(counter), progress(total, "x") as tick:
        tick()
        for n in ticks:
            tick(n)
    assert counter.done == [("x", total, 1 + sum(ticks))]


def test_a_task_ends_with_its_block_however_it_ends() -> None:
    counter = Counter()

    def interrupted() -> None:
        with shown_by(counter), progress(2, "outer"):
            with progress(1, "inner") as tick:
                tick()
            assert counter.open == ["outer"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [label for label, _, _ in counter.done] == ["inner", "outer"]
    with progress(1, "after") as tick:
        tick()
    assert len(counter.done) == 2


@pytest.mark.parametrize("environ", [{"TERM": "xterm"}, {}])
def test_nothing_is_shown_off_a_terminal(environ: dict[str, str]) -> None:
    stream = io.StringIO()
    with shown_on(stream, environ), progress(2, "x") as tick:
        tick()
    assert stream.getvalue() == ""
    with shown_on(None, {"TERM": "xterm"}), progress(2, "x") as tick:
        tick()


def test_a_terminal_shows_bars_in_which_no_label_acts() -> None:
    code, out, err = on_terminal("-c", WORK)
    assert (code, out) == (0, "report True\n")
    assert "3/3" in err
    assert "samples of \\x1b[31ma\\n" in err
    assert "\x1b[31ma" not in err


def test_an_interrupted_bar_gives_the_cursor_back() -> None:
    code, _, err = on_terminal("-c", WORK, "interrupt")
    assert code != 0
    assert err.rfind("\x1b[?25h") > err.rfind("\x1b[?25l") >= 0


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"CI": "true"}])
def test_no_bars_where_they_cannot_be_redrawn(environ: dict[str, str]) -> None:
    assert on_terminal("-c", WORK, **environ) == (0, "report False\n", "")


def test_no_color(tmp_path: Path) -> None:
    _, _, err = on_terminal("-c", WORK, NO_COLOR="1")
    assert "3/3" in err
    assert "\x1b[3" not in err


def test_a_pipe_gets_nothing_and_costs_nothing() -> None:
    ran = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("report False\n", "")
