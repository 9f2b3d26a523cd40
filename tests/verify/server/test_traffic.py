"""Whose tokens were counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.errors import InputRejected
from eagle3_contract.verify.engine_runs.definitions import Counts
from eagle3_contract.verify.server.facts import Window
from eagle3_contract.verify.server.traffic import Reading, judge_window, read_counters
from verify.server.imitations import METRICS

BEFORE = Reading(
    generated=1000, finished=10, drafted=Counts(rounds=400, accepted=500, drafted=1200, per_position=(300, 150, 50)), positions=3
)
OWN = Counts(rounds=16, accepted=23, drafted=48, per_position=(11, 7, 5))


def later(tokens: int, requests: int = 1, counts: Counts = OWN) -> Reading:
    assert BEFORE.drafted is not None
    return replace(BEFORE, generated=1000 + tokens, finished=10 + requests, drafted=BEFORE.drafted + counts)


@pytest.mark.parametrize(
    ("after", "tokens", "window"),
    [
        (later(40), 40, Window.OWN),
        (later(38), 38, Window.OWN),  # the end cut the last step
        (later(37), 37, Window.OWN),
        (later(36), 36, Window.FOREIGN),  # more steps than this answer can have made, by one token
        (later(41), 40, Window.FOREIGN),
        (later(400, 3), 40, Window.FOREIGN),
        (later(40, 2), 40, Window.FOREIGN),
        (later(39), 40, Window.STILL),
        (later(0, 0, Counts(rounds=0, accepted=0, drafted=0)), 40, Window.STILL),
        (later(-990, -9, Counts(rounds=-395, accepted=-495, drafted=-1185)), 40, Window.RESET),
        (later(40, 1, Counts(rounds=-1, accepted=0, drafted=0)), 40, Window.RESET),
        (later(40, 1, Counts(rounds=1, accepted=4, drafted=3)), 40, Window.RESET),
        (replace(later(40), drafted=None), 40, Window.RESET),
        (replace(later(40), generated=None), 40, Window.STILL),
    ],
)
def test_a_window(after: Reading, tokens: int, window: Window) -> None:
    found, counts, detail = judge_window(BEFORE, after, tokens=tokens, deepest=3)
    assert found is window
    assert (detail == "") == (window is Window.OWN)
    if window is Window.OWN:
        assert counts == OWN


def test_without_draft_counters_a_window_is_own_and_empty() -> None:
    before, after = replace(BEFORE, drafted=None), replace(later(40), drafted=None)
    assert judge_window(before, after, tokens=40, deepest=None) == (Window.OWN, None, "")


def test_the_counters_of_a_real_page() -> None:
    found = read_counters(METRICS, "page")
    assert found == Reading(generated=0, finished=0, drafted=Counts(rounds=0, accepted=0, drafted=0, per_position=(0, 0, 0)), positions=3)
    assert read_counters(None, "page") == Reading(generated=None, finished=None, drafted=None, positions=None)
    assert read_counters("# nothing\n", "page") == Reading(generated=None, finished=None, drafted=None, positions=None)


@pytest.mark.parametrize("position", ["99999999999", "-1", "x", "\u0661", ""])
def test_a_position_that_no_drafter_has(position: str) -> None:
    page = METRICS.replace('position="2"} 0.0', f'position="{position}"}} 0.0')
    with pytest.raises(InputRejected) as caught:
        read_counters(page, "page")
    assert caught.value.rule == "server.counters"
