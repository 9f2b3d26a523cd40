"""Which rows belong to which request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_toys import forward_batch

from eagle3_contract.engines.sglang.batches import LayoutError, row_counts, spans


@pytest.mark.parametrize("name", ["EXTEND", "MIXED", "DRAFT_EXTEND_V2"])
@pytest.mark.parametrize("on_cpu", [True, False])
def test_an_extend_has_its_own_lengths(name: str, on_cpu: bool) -> None:
    assert row_counts(forward_batch(name, [3, 1, 5], on_cpu=on_cpu), 3, 9) == [3, 1, 5]


@pytest.mark.parametrize(("name", "rows", "counts"), [("TARGET_VERIFY", 8, [4, 4]), ("DECODE", 2, [1, 1]), ("DECODE", 8, [4, 4])])
def test_other_forwards_have_as_many_rows_of_each(name: str, rows: int, counts: list[int]) -> None:
    assert row_counts(forward_batch(name), 2, rows) == counts


@pytest.mark.parametrize(
    ("batch", "requests", "rows"),
    [(forward_batch("EXTEND", [3, 1]), 2, 5), (forward_batch("EXTEND", [3, 1]), 3, 4), (forward_batch("DECODE"), 3, 7),
     (forward_batch("DECODE"), 0, 1)],
)  # fmt: skip
def test_rows_that_do_not_add_up_are_an_error(batch: object, requests: int, rows: int) -> None:
    with pytest.raises(LayoutError, match=f"ran {rows} rows for {requests} requests"):
        row_counts(batch, requests, rows)


@given(st.lists(st.integers(0, 9)))
def test_spans_cut_without_gap_or_overlap(counts: list[int]) -> None:
    rows = list(range(sum(counts)))
    parts = [rows[span] for span in spans(counts)]
    assert [row for part in parts for row in part] == rows
    assert [len(part) for part in parts] == counts
