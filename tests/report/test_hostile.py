"""Nothing that stands in a file acts on a terminal, a log reader, a parser or a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.findings import Check, Severity, Status, Where
from contract.report import FORMATS, PLAIN, Style, render
from contract.report.escape import json_text, visible
from contract.report.flow import Edge, Flow
from contract.reporting import Report
from report.samples import HOSTILE, REPORTS

# What acts: control characters but for LF, bidirectional and invisible ones, lone surrogates, and prefixes of log commands.
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]|##\\[|##vso\\[|::[A-Za-z]")
ANNOTATION = re.compile(r"::(error|warning|notice) ((file|line|col|title)=[^:,]*,?)+::(?P<data>.*)")
SGR = re.compile(r"\x1b\[[0-9;]*m")

PIECES = ["\x1b[31m", "\x1b]8;;http://x\x07", "\n::error::x", "##[error]", "##vso[x]", "\u202e", "\u2028", "<script>", "</td>", "]]>", "&"]
PIECES += ['"', "'", "`", "|", "[x](y)", "%0A", "\x00", "\r", "\t", "\ud800", "\x7f", "\x9b", "中文", "  ", "a::b", ":", "%", ",", "\\"]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=6).map("".join)
NUMBERS = st.floats() | st.integers()


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """A report in which every string that can come from a file is drawn."""
    checks = [
        Check(
            rule=draw(TEXT),
            status=draw(st.sampled_from(Status)),
            required=draw(st.booleans()),
            severity=draw(st.sampled_from(Severity)),
            dimension=draw(TEXT),
            message=draw(TEXT),
            where=Where(file=draw(TEXT), line=draw(st.none() | st.just(3)), column=1, key=draw(TEXT), tensor=draw(TEXT)),
            expected=draw(TEXT | st.lists(TEXT | NUMBERS, max_size=2)),
            actual=draw(st.dictionaries(TEXT, TEXT | NUMBERS, max_size=2)),
            fix=draw(TEXT),
            evidence={draw(TEXT): draw(TEXT)},
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    matrix = {"slots": [0], "states": [draw(TEXT), "b"], "median": [[draw(NUMBERS), None]], "expected": [draw(TEXT)]}
    path = {"accuracy": [draw(NUMBERS), draw(TEXT)], "accepted_length": draw(NUMBERS)}
    flow = Flow(nodes={"a": draw(TEXT), "b": draw(TEXT)}, edges=[Edge(source="a", target="b", dimensions=[c.dimension for c in checks])])
    tokens = {draw(TEXT): {draw(TEXT): draw(st.just("+-.") | TEXT)}}
    return Report(
        command="check",
        subject={draw(TEXT): draw(TEXT), "engines": [draw(TEXT)]},
        checks=checks,
        measurements={"distances": matrix, "training_path": path, "flow": flow.as_json(), "tokens": tokens, draw(TEXT): draw(NUMBERS)},
        provenance={draw(TEXT): draw(TEXT)},
        complete=draw(st.booleans()),
    )


def worst(text: str) -> Report:
    """The sample report with one text everywhere."""
    base = REPORTS["violated"]
    where = Where(file=text, line=1, column=1, key=text, tensor=text, sample=text)
    return replace(
        base,
        subject={text: text},
        checks=[replace(c, message=text, fix=text, expected=text, actual={text: [text]}, where=where) for c in base.checks],
        provenance={text: text},
    )


def assert_harmless(form: str, report: Report, style: Style = PLAIN) -> str:
    output = render(report, form, style)
    assert output.endswith("\n")
    if form == "github":
        for line in output.splitlines():
            match = ANNOTATION.fullmatch(line)
            assert match, line
            assert not ACTS.search(match["data"])
    else:
        found = ACTS.search(SGR.sub("", output) if style.color else output)
        assert not found, found
    output.encode()
    return output


@pytest.mark.parametrize("unseen", ["\u00a0", "\u2003", "\u034f", "\u115f", "\u2800", "\u3164", "\ufe0f", "\uffa0", "\U000e0101"])
def test_two_names_never_look_the_same(unseen: str) -> None:
    assert visible(f"fc{unseen}.weight").isascii()
    assert visible("名前é.weight") == "名前é.weight"


@pytest.mark.parametrize("command", ["##teamcity[x]", "##VSO[x]", "::Error::x", "###[error]", ":::debug::x"])
def test_commands_of_log_readers_are_broken_up(command: str) -> None:
    assert visible(command) != command
    assert json.loads(json_text([command])) == [command]
    assert command not in json_text([command])


@pytest.mark.parametrize("form", FORMATS)
def test_the_worst_string_everywhere(form: str) -> None:
    assert_harmless(form, worst(HOSTILE))


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=25)
@given(report=reports())
def test_nothing_acts(form: str, report: Report) -> None:
    assert_harmless(form, report)


@settings(max_examples=25)
@given(report=reports(), color=st.booleans(), width=st.integers(40, 200))
def test_nothing_acts_on_a_terminal(report: Report, color: bool, width: int) -> None:
    output = assert_harmless("text", report, Style(terminal=True, color=color, width=width))
    assert color or "\x1b" not in output


@settings(max_examples=25)
@given(report=reports())
def test_without_a_terminal_text_is_ascii(report: Report) -> None:
    assert render(report, "text").isascii()


@settings(max_examples=25)
@given(report=reports())
def test_json_is_strict_and_lossless(report: Report) -> None:
    document = json.loads(render(report, "json"), parse_constant=pytest.fail)
    assert [c["message"] for c in document["checks"]] == [c.message for c in report.checks]
    assert document["exit_code"] == int(report.exit_code)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in render(report, "jsonl").split("\n")[:-1]]
    assert [line["type"] for line in lines] == ["run", *["check"] * len(report.checks), "summary"]
    json.loads(render(report, "sarif"), parse_constant=pytest.fail)
    json.loads(render(report, "gitlab"), parse_constant=pytest.fail)


@settings(max_examples=25)
@given(report=reports())
def test_junit_is_well_formed_and_red_when_the_exit_code_is(report: Report) -> None:
    root = ElementTree.fromstring(render(report, "junit"))
    (suite,) = root
    red = len(suite.findall("testcase/failure")) + len(suite.findall("testcase/error"))
    assert (red > 0) == (int(report.exit_code) != 0)
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    assert int(suite.attrib["failures"]) + int(suite.attrib["errors"]) == red


class Tags(HTMLParser):
    """The tags of a page, and whether any attribute could run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        # A link to a part of the page itself is the only one there may be.
        links = [name for name, value in attrs if name in ("href", "src", "action") and not (value or "").startswith("#")]
        self.active += [name for name, _ in attrs if name.startswith("on")] + links


TAGS = Tags()
for _sample in REPORTS.values():
    TAGS.feed(render(_sample, "html"))


@settings(max_examples=25)
@given(report=reports())
def test_no_string_becomes_a_tag(report: Report) -> None:
    page = Tags()
    page.feed(render(report, "html"))
    assert page.tags <= TAGS.tags
    assert not page.active
    assert "script" not in page.tags


@settings(max_examples=25)
@given(report=reports())
def test_no_string_becomes_markup_in_markdown(report: Report) -> None:
    lines = render(report, "markdown").splitlines()
    outside = [line for line in lines if not line.startswith("    ")]
    assert not [line for line in outside if re.search(r"<|(?<!\\)`|(?<!\\)\]\(", line)]
    rows = [line for line in lines if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} <= {8}
