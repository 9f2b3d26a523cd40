"""How far logits may part where only the states are noisy: figures measured on clean captures, and on a fault."""

from __future__ import annotations

import pytest

from eagle3_contract.verify.divergence import EXACT, bound_for

# SmolLM2-135M in bfloat16, drafters a and b, whole answers: worst sample of (states' median, worst), step 1 logits (median, worst).
CLEAN = {"a": ((0.0127, 0.0507), (0.0131, 0.2045)), "b": ((0.0119, 0.0260), (0.0110, 0.1125))}


@pytest.mark.parametrize("drafter", CLEAN)
def test_noise_that_a_clean_capture_has_is_allowed(drafter: str) -> None:
    (state_median, state_worst), (median, worst) = CLEAN[drafter]
    assert bound_for([0.0, state_median], [0.0, state_worst]).allows(median, worst)


def test_states_of_another_document_in_one_slot_are_not_allowed_by_it() -> None:
    """s02's boundary 2 in s01 (drafter b), judged as if the other slots' noise were all: median 0.23, worst 0.8."""
    assert not bound_for([0.0, 0.0119], [0.0, 0.0260]).allows(0.23, 0.8)


def test_equal_states_allow_nothing_but_rounding() -> None:
    assert bound_for([0.0, 0.0], [0.0, 0.0]) is EXACT
    assert bound_for([], []) is EXACT
