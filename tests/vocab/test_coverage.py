"""Coverage counts what can be drafted."""

from __future__ import annotations

import numpy as np
import pytest

from eagle3_contract.vocab.coverage import Coverage, coverage


def test_only_masked_tokens_count() -> None:
    targets = np.array([2, 5])
    assert coverage([2, 2, 5, 7], targets) == Coverage(3, 4)
    assert coverage([2, 2, 5, 7], targets, [0, 1, 0, 1]) == Coverage(1, 2)
    assert (coverage([2], targets) + coverage([3], targets)).fraction == 0.5


def test_nothing_counted_has_no_fraction() -> None:
    assert coverage([], np.array([1])).fraction is None
    assert coverage([4], np.array([1]), [0]).fraction is None


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 entries for 3 tokens"):
        coverage([1, 2, 3], np.array([1]), [1, 0])
