"""Accepted length in the terms of a contract."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.verify.engine_runs.definitions import Counts, without_prefill
from eagle3_contract.verify.server.figure import Terms, interval, length

PARTS = [Counts(rounds=5, accepted=4), Counts(rounds=45, accepted=62), Counts(rounds=16, accepted=23)]
SOME = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 3)).map(lambda p: Counts(rounds=p[0], accepted=p[0] * p[1])), min_size=1, max_size=6
)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (Terms(), 1 + 89 / 66),
        (Terms(bonus=False), 89 / 66),
        (Terms(prefill=True), 1 + (89 + 3) / 66),
        (Terms(pooled=False), 1 + (4 / 5 + 62 / 45 + 23 / 16) / 3),
        (Terms(pooled=False, bonus=False, prefill=True), (5 / 5 + 63 / 45 + 24 / 16) / 3),
    ],
)
def test_terms(terms: Terms, expected: float) -> None:
    assert length(PARTS, terms) == pytest.approx(expected)
    low, high = interval(PARTS, terms)
    assert low <= expected <= high


def test_sglangs_own_figure_is_one_of_the_terms() -> None:
    """completion_tokens / verify steps of the recorded answer of 10 tokens in 5 steps is 2.0."""
    one = [Counts(rounds=5, accepted=4)]
    assert length(one, Terms(pooled=False, prefill=True)) == 2.0
    assert length(one) == pytest.approx(without_prefill(2.0, 5))


def test_what_verified_nothing_has_no_length() -> None:
    assert math.isnan(length([Counts(rounds=0, accepted=0)]))
    assert all(map(math.isnan, interval([])))
    assert length([Counts(rounds=0, accepted=0), *PARTS], Terms(prefill=True)) == length(PARTS, Terms(prefill=True))


@given(SOME)
def test_the_definition_is_that_of_the_counts(parts: list[Counts]) -> None:
    assert length(parts) == pytest.approx(sum(parts[1:], parts[0]).length)
    low, high = interval(parts)
    each = [p.length for p in parts]
    assert min(each) - 1e-9 <= low <= high <= max(each) + 1e-9


def test_terms_are_said() -> None:
    assert "pooled" in str(Terms())
    said = str(Terms(pooled=False, bonus=False, prefill=True))
    assert ("mean" in said, "bonus token not counted" in said, "prefill's token counted" in said) == (True, True, True)
