"""What single formats promise beyond their golden files."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from contract.findings import Severity
from contract.report import PLAIN, Style, render
from contract.report.distances import Distances, drawing, heat, nearness
from contract.report.flow import Edge, Flow
from contract.report.steps import Steps
from contract.report.style import style_for
from report.samples import DISTANCES, FAILED, FLOW, NOTICED, PASSED, REPORTS, SPACE, report


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Latin(Terminal):
    encoding = "iso-8859-1"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"COLUMNS": "90", "TERM": "xterm"}, True),
        ({"COLUMNS": "90", "NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ({"COLUMNS": "90", "NO_COLOR": ""}, True),
        ({"COLUMNS": "90", "TERM": "dumb"}, False),
    ],
)
def test_no_color_wins(environ: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert style_for(Terminal(), environ) == Style(terminal=True, color=expected, width=90)


def test_no_terminal_no_boxes() -> None:
    assert style_for(io.StringIO(), {"FORCE_COLOR": "1"}) == PLAIN
    assert style_for(Latin(), {"COLUMNS": "90"}) == PLAIN


def test_the_width_is_kept() -> None:
    for width in (40, 80, 150):
        lines = render(REPORTS["violated"], "text", Style(terminal=True, width=width)).splitlines()
        assert max(map(len, lines)) <= width


def test_failures_come_before_warnings_and_counts_last() -> None:
    text = render(REPORTS["violated"], "text")
    order = [text.index(word) for word in ("VIOLATED", "FAILED", "UNKNOWN recipe", "WAIVED", "NOTICED", "nearness", "1 passed, 1 failed")]
    assert order == sorted(order)
    assert text.splitlines()[-1].startswith("1 passed, 1 failed, 2 unknown (1 of them required), 1 waived, 1 skipped")


def test_github_keeps_within_ten_per_level() -> None:
    many = report(*[FAILED] * 30, *[NOTICED] * 30, *[SPACE] * 30, PASSED)
    lines = render(many, "github").splitlines()
    for level in ("error", "warning", "notice"):
        assert 0 < len([line for line in lines if line.startswith(f"::{level} ")]) <= 10
    assert "22 more" in render(many, "github")


def test_github_escapes_properties() -> None:
    where = replace(FAILED.where, file="a,b:c%d") if FAILED.where else None
    assert "file=a%2Cb%3Ac%25d,line=14,col=3," in render(report(replace(FAILED, where=where)), "github")


def test_gitlab_fingerprints_are_distinct_and_stable() -> None:
    text = render(report(FAILED, FAILED, NOTICED), "gitlab")
    prints = re.findall(r'"fingerprint": "([0-9a-f]{64})"', text)
    assert len(prints) == len(set(prints)) == 3
    moved = replace(FAILED, message="said otherwise")
    assert re.findall(r'"fingerprint": "([0-9a-f]{64})"', render(report(moved, FAILED, NOTICED), "gitlab")) == prints


def test_the_heat_of_a_distance() -> None:
    assert (heat(0.0), heat(1e-6), heat(2.0), heat(None), heat(float("nan"))) == ("#", "#", " ", "?", " ")
    assert nearness("inf") == 0.0
    assert [heat(10.0**-p) for p in range(7)] == list(dict.fromkeys(heat(10.0**-p) for p in range(7)))


def test_the_drawing_names_wanted_and_found() -> None:
    distances = Distances.of({"distances": DISTANCES})
    assert distances is not None
    assert drawing(distances, width=100)[1] == "slot 0 | #  ?| expected boundary 0 (0.97), nearest boundary 3 (2e-06)"


def test_the_drawing_is_cut_to_the_width() -> None:
    wide = Distances(slots=["slot 0"], states=[f"boundary {n}" for n in range(200)], median=[[1.0] * 200], expected=[None])
    assert all(len(line) <= 100 for line in drawing(wide, width=100))
    assert "...|" in drawing(wide, width=100)[1]


def test_another_shape_is_not_drawn() -> None:
    for broken in ({}, {"slots": []}, DISTANCES | {"median": [[1.0]]}, DISTANCES | {"slots": ["x"]}, "text", None, [1]):
        assert Distances.of({"distances": broken}) is None


def test_the_slots_at_hand_need_not_be_all() -> None:
    some = Distances.of({"distances": DISTANCES | {"slots": [2], "median": [["nan", 0.5, None, 0.1, "inf"]]}})
    assert some is not None
    assert (some.slots, some.expected, some.nearest(0), some.value(0, "boundary 31")) == (["slot 2"], ["boundary 31"], "boundary 59", None)


def test_severity_decides_the_level() -> None:
    noticed = replace(NOTICED, severity=Severity.NOTE)
    assert "::notice file" not in render(report(PASSED, NOTICED), "github")
    assert render(report(PASSED, noticed), "github").count("::notice") == 2


def test_the_broken_edge_is_red_and_named() -> None:
    page = render(REPORTS["violated"], "html")
    assert page.count('<path class="edge broken"') == 1
    assert "</strong>: states [0, 3, 31] to fc 21504 to 7168." in page
    kept = render(report(PASSED, measurements={"flow": FLOW.as_json()}), "html")
    assert "edge broken" not in kept
    assert "No edge is broken." in kept


def test_a_flow_in_columns() -> None:
    assert FLOW.columns() == [["states"], ["embedding", "fc"], ["layer"], ["head"]]
    circle = Flow(nodes={"a": "a", "b": "b"}, edges=[Edge(source="a", target="b"), Edge(source="b", target="a")])
    assert circle.columns() is None
    for broken in (None, {}, {"nodes": [], "edges": []}, {"nodes": [{}], "edges": []}, circle.as_json()):
        assert Flow.of({"flow": broken}) is None
    stray = FLOW.as_json() | {"edges": [{"from": "states", "to": "nowhere", "dimensions": []}]}
    assert Flow.of({"flow": stray}) is None


def test_figures_per_step() -> None:
    assert "  training  0.747  0.610      -" in render(REPORTS["violated"], "text").splitlines()
    assert "  inference 1.300" in render(REPORTS["violated"], "text").splitlines()
    assert Steps.all_of({"training_path": "x"}) == Steps.all_of({}) == Steps.all_of({"training_path": {"samples": 1}}) == []
    (figure,) = Steps.all_of({"training_path": {"accuracy": [float("nan"), "x", 1]}, "inference_path": 3})
    assert (figure.paths, figure.greatest()) == ({"training": [None, None, 1.0]}, 1.0)
