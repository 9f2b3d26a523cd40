"""The chain's accepted length, against a token-by-token simulation of an engine's loop."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.verify.acceptance import Acceptance, chain, first_round, pooled


def simulate(tokens: list[int], drafts: list[list[int]], start: int) -> Acceptance:
    """An engine's loop, written the other way round: emit tokens, count verify rounds, stop before a round would be cut."""
    position, rounds, emitted = start + 1, 0, 0  # x[position] has just been sampled
    while position + len(drafts) < len(tokens):
        proposal = [step[position - 1] for step in drafts]
        truth = tokens[position + 1 : position + 1 + len(drafts)]
        kept = next((i for i, (p, t) in enumerate(zip(proposal, truth, strict=True)) if p != t), len(drafts))
        rounds += 1
        emitted += kept + 1
        position += kept + 1
    return Acceptance(rounds, emitted - rounds)


@given(st.data())
def test_agrees_with_an_engine_loop(data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=40))
    steps = data.draw(st.integers(1, 4))
    row = st.lists(st.integers(0, 2), min_size=len(tokens) - 1, max_size=len(tokens) - 1)
    drafts = data.draw(st.lists(row, min_size=steps, max_size=steps))
    start = data.draw(st.integers(0, len(tokens) - 2))
    assert chain(tokens, drafts, start=start) == simulate(tokens, drafts, start)


def test_perfect_and_useless_drafters() -> None:
    tokens = list(range(20))
    perfect = [[t + 2 + s for t in range(19)] for s in range(3)]
    assert chain(tokens, perfect).length == 4
    assert chain(tokens, [[-1] * 19] * 3).length == 1
    late = [perfect[0], [-1] * 19, perfect[2]]  # a miss at step 1 hides step 2
    assert chain(tokens, late).length == 2


def test_first_round_pairs_the_first_generated_token() -> None:
    assert first_round([0, 0, 0, 1, 1]) == 2
    assert first_round([1, 1]) == 0
    assert first_round([0, 0]) == 1
    assert first_round(None) == 0


def test_no_round_is_not_a_length() -> None:
    assert math.isnan(pooled([]).length)
    assert pooled([Acceptance(2, 3), Acceptance(2, 1)]).length == 2
