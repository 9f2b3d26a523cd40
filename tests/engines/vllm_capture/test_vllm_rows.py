"""Whose rows they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.engines.vllm.rows import Slice, emitted, request_name, sample_row, slices, target_phase


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.lists(st.integers(0, 99), max_size=3))
def test_slices_partition_the_batch(counts: list[int], padding: list[int]) -> None:
    starts = [sum(counts[:i]) for i in range(len(counts) + 1)]
    ids = [f"r{i}" for i in range(len(counts))]
    found = slices(ids, [*starts, *padding])
    assert [s.id for s in found] == ids
    assert [row for s in found for row in range(s.start, s.stop)] == list(range(sum(counts)))


@pytest.mark.parametrize("starts", [[0, 3], [1, 3, 5], [0, 3, 2]])
def test_starts_that_split_nothing(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="does not split"):
        slices(["a", "b"], starts)


@pytest.mark.parametrize(
    ("rows", "drafts", "first", "phase"),
    [
        (7, 0, 0, "prefill"),
        (1, 0, 6, "prefill"),  # the last chunk of a prompt of 7
        (1, 0, 7, "decode"),
        (4, 3, 7, "verify"),
        (12, 0, 0, "prefill"),  # again after a preemption, generated tokens with it
        (3, 0, 8, "prefill"),
    ],
)
def test_phases(rows: int, drafts: int, first: int, phase: str) -> None:
    assert target_phase(rows, drafts, first, prompt_tokens=7) == phase


@pytest.mark.parametrize(("sampled", "kept"), [([4, 5, -1, -1], [4, 5]), ([4], [4]), ([-1], []), ([4, 11, 5], [4]), ([4, -1, 5], [4])])
def test_what_a_step_emitted(sampled: list[int], kept: list[int]) -> None:
    assert emitted(sampled, vocabulary=11) == kept


def test_a_sampled_row_belongs_to_its_request() -> None:
    assert sample_row(6, Slice("a", 4, 8)) == 2
    for place in (3, 8):
        with pytest.raises(ValueError, match="samples row"):
            sample_row(place, Slice("a", 4, 8))


def test_names() -> None:
    assert request_name("p0@batched-0a1b2c3d", {}) == "p0@batched"
    assert request_name("p0", {}) == "p0"
    assert request_name("p0-0a1b2c3d", {"p0": "mine"}) == "mine"
    assert request_name("p-12345678", {"p-12345678": "whole"}) == "whole"
