"""The meaning of d2t is told by its values; the odd right ones (zeros, unsorted, negative) alarm nobody, the wrong are named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from eagle3_contract.vocab.classify import MapKind, classify_map

Ids = NDArray[np.int64]


@st.composite
def chosen(draw: st.DrawFn, largest: int = 80) -> tuple[Ids, int]:
    """A draft vocabulary: DV distinct target ids in ascending order, and V."""
    size = draw(st.integers(2, largest))
    ids = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size))
    return np.array(sorted(ids), dtype=np.int64), size


def offsets(ids: Ids) -> Ids:
    return ids - np.arange(len(ids))


def mask_of(ids: Ids, size: int) -> NDArray[np.bool_]:
    mask = np.zeros(size, dtype=bool)
    mask[ids] = True
    return mask


@given(chosen(), st.booleans())
def test_an_offset_map_is_never_called_wrong(vocab: tuple[Ids, int], with_mask: bool) -> None:
    ids, size = vocab
    found = classify_map(offsets(ids), len(ids), size, mask_of(ids, size) if with_mask else None)
    assert found.kind is not MapKind.INVALID
    assert found.t2d_problems == ()
    if found.kind in (MapKind.OFFSET, MapKind.IDENTITY):
        assert found.targets is not None
        assert found.targets.tolist() == ids.tolist()
    else:
        # Only a map whose values could be ids as well may be left open, and only without a mask that tells the two apart.
        assert found.kind is MapKind.AMBIGUOUS
        assert len(set(offsets(ids).tolist())) == len(ids)
        assert not with_mask


@given(chosen(), st.randoms(use_true_random=False))
def test_unsorted_and_partly_negative_offsets_are_right(vocab: tuple[Ids, int], rng: np.random.Generator) -> None:
    ids, size = vocab
    order = list(range(len(ids)))
    rng.shuffle(order)
    shuffled = ids[order]
    found = classify_map(offsets(shuffled), len(ids), size, mask_of(ids, size))
    assert found.kind in (MapKind.OFFSET, MapKind.IDENTITY, MapKind.AMBIGUOUS)
    if (offsets(shuffled) < 0).any():
        assert found.kind is MapKind.OFFSET
        assert found.targets is not None
        assert found.targets.tolist() == shuffled.tolist()


@given(chosen())
def test_absolute_ids_that_look_like_offsets_are_not_taken_for_offsets(vocab: tuple[Ids, int]) -> None:
    ids, size = vocab
    if len(ids) < 2:
        return
    # Room above the ids, so that i + v is in range and, being sorted, unique: it looks like an offset map.
    found = classify_map(ids, len(ids), size + len(ids))
    assert found.kind in (MapKind.ABSOLUTE, MapKind.AMBIGUOUS)
    told = classify_map(ids, len(ids), size + len(ids), mask_of(ids, size + len(ids)))
    assert told.kind is MapKind.ABSOLUTE
    assert told.targets is not None
    assert told.targets.tolist() == ids.tolist()


def test_a_realistic_absolute_map_is_told_without_a_mask() -> None:
    rng = np.random.default_rng(0)
    frequent = np.arange(2000)
    rare = rng.choice(np.arange(2000, 60000), 6000, replace=False)
    ids = np.sort(np.concatenate([frequent, rare]))
    found = classify_map(ids, 8000, 128256)
    assert found.kind is MapKind.ABSOLUTE
    assert "neighbours" in found.reasons[0]
    assert classify_map(offsets(ids), 8000, 128256).kind is MapKind.OFFSET


def test_a_hundred_zeros_at_the_start_are_right() -> None:
    ids = np.concatenate([np.arange(100), np.arange(100, 500, 2)])
    found = classify_map(offsets(ids), len(ids), 512)
    assert found.kind is MapKind.OFFSET
    assert any("first 101 offsets are 0" in n for n in found.notes)


@pytest.mark.parametrize(
    ("values", "size", "says"),
    [
        (np.array([0, 1, 600]), 512, "outside the vocabulary"),
        (np.array([-1, 0, 0]), 512, "target ids are negative"),
        (np.array([1, 0, 1]), 512, "occur twice"),
        (np.array([0.0, 1.0, 1.0]), 512, "dtype float64"),
        (np.array([True, False, True]), 512, "dtype bool"),
        (np.array([0, 1, 1, 1]), 512, "4 entries for a draft vocabulary of 3"),
        (np.array([[0, 1, 1]]), 512, "one dimension"),
        (np.array([0, 2**63 - 1, 0]), 512, "outside the vocabulary"),
        (np.array([0, -(2**63), 0]), 512, "target ids are negative"),
        (np.array([0, 0, 0]), 2, "larger than the target's"),
        (np.array(["a", "b", "c"]), 512, "dtype <U1"),
    ],
)
def test_wrong_maps_are_invalid_and_say_why(values: NDArray[np.generic], size: int, says: str) -> None:
    found = classify_map(values, 3, size)
    assert found.kind is MapKind.INVALID
    assert found.map is None
    assert any(says in r for r in found.reasons), found.reasons


def test_a_map_below_zero_by_the_vocabulary_names_the_wrap_of_vllm() -> None:
    ids = np.array([3, 4, 9])
    found = classify_map(offsets(ids) - 16, 3, 16)
    assert found.kind is MapKind.INVALID
    assert any("wraps" in r for r in found.reasons)


def test_zeros_are_the_identity_and_say_what_they_may_be() -> None:
    assert classify_map(np.zeros(8, np.int64), 8, 8).notes == ()
    short = classify_map(np.zeros(8, np.int64), 8, 32)
    assert short.kind is MapKind.IDENTITY
    assert "missing d2t" in short.notes[0]
    contradicted = classify_map(np.zeros(8, np.int64), 8, 32, mask_of(np.arange(2, 10), 32))
    assert contradicted.t2d_problems


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (mask_of(np.array([0, 1, 5]), 8), "contradicts"),
        (mask_of(np.array([0, 1]), 8), "selects 2 tokens"),
        (np.ones(8, dtype=np.int64), "bool mask"),
        (mask_of(np.array([0, 1]), 4), "4 entries for a target vocabulary of 8"),
    ],
)
def test_a_wrong_t2d_is_told_apart_from_a_wrong_map(mask: NDArray[np.generic], says: str) -> None:
    ids = np.array([0, 1, 6])
    found = classify_map(offsets(ids), 3, 8, mask)
    assert found.kind is MapKind.OFFSET
    assert any(says in p for p in found.t2d_problems), found.t2d_problems
    assert classify_map(offsets(ids), 3, 8, mask_of(ids, 10)).t2d_problems == ()


def test_neither_reading_is_preferred_where_nothing_decides() -> None:
    found = classify_map(np.array([1, 3]), 2, 16)
    assert found.kind is MapKind.AMBIGUOUS
    assert found.targets is None
