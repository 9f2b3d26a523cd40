"""`check` draws the data flow as `verify` does: whole where all is kept, broken where it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from factory import pair

from contract import check
from contract.report import render
from contract.report.flow import Flow

SGLANG = "sglang==0.5.23"


@pytest.mark.parametrize(("ids", "broken"), [(None, False), ((2, 4, 5), True)])
def test_the_drawing_shows_where_it_is_broken(tmp_path: Path, ids: tuple[int, ...] | None, broken: bool) -> None:
    spec = (pair() if ids is None else pair(ids=ids)).write(tmp_path)
    report = check(spec, engines=[SGLANG])
    flow = Flow.of(report.measurements)
    assert flow is not None
    assert (int(report.exit_code) == 1) == broken
    into_fc = [edge for edge in flow.edges if edge.target == "fc"]
    assert len(into_fc) == 3
    assert bool(flow.broken(report)) == broken
    page = render(report, "html")
    assert "Data flow" in page
    assert ("No edge is broken." in page) != broken
