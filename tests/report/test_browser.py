"""The HTML report in a real browser: it looks at every sample, also at hostile ones, in light and dark, wide and narrow."""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from contract.findings import Where
from contract.report import render
from contract.report.flow import Edge, Flow
from report.browser import Browser
from report.samples import DISTANCES, FAILED, FLOW, HOSTILE, PATHS, REPORTS, TOKENS, report

pytestmark = pytest.mark.slow

BAD = replace(FAILED, rule=HOSTILE, message=HOSTILE, fix=HOSTILE, expected=HOSTILE, where=Where(file=HOSTILE, key=HOSTILE))
EVENTS = (
    '"><img src=http://evil.example/x onerror=alert(1)><svg onload=document.title="pwned"></svg><script>document.title="pwned"</script>'
)
PAGES = dict(REPORTS)
PAGES["hostile"] = report(
    BAD,
    replace(BAD, rule=EVENTS, message=EVENTS, fix=EVENTS),
    measurements={
        "flow": Flow(nodes={HOSTILE: HOSTILE, "b": EVENTS}, edges=[Edge(source=HOSTILE, target="b", dimensions=["recipe"])]).as_json(),
        "distances": DISTANCES | {"states": [HOSTILE, EVENTS, "x", "y", "z"]},
        "tokens": {EVENTS: {HOSTILE: "+-."}},
        EVENTS: HOSTILE,
    },
)
ACTING = '<title>x</title><img src="http://evil.example/a.png"><script>console.log("ran"); document.title = "pwned"</script>'


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(tmp_path)


def written(name: str, folder: Path) -> Path:
    path = folder / f"{name}.html"
    path.write_text(render(PAGES[name], "html"), encoding="utf-8")
    return path


def said_by_the_page(log: str) -> list[str]:
    """Lines of the console: script errors, refused requests and styles."""
    return [line for line in log.splitlines() if "CONSOLE" in line]


def test_the_browser_notices_a_page_that_acts(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "acting.html"
    page.write_text(ACTING)
    dom, log = browser.dom(page)
    assert "<title>pwned</title>" in dom
    assert said_by_the_page(log)
    assert browser.requests(page) == ["http://evil.example/a.png"]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_quiet_and_says_the_verdict(name: str, browser: Browser, tmp_path: Path) -> None:
    page = written(name, tmp_path)
    dom, log = browser.dom(page)
    assert said_by_the_page(log) == []
    verdict = PAGES[name].verdict.value
    assert f"<title>contract {verdict}: " in dom
    assert f"<h1>{verdict.upper()} <small>(exit {int(PAGES[name].exit_code)})</small></h1>" in dom
    assert not re.search(r"<(script|img|iframe|link|object)\b", dom)


@pytest.mark.parametrize("name", ["violated", "hostile"])
def test_nothing_is_asked_of_the_network(name: str, browser: Browser, tmp_path: Path) -> None:
    assert browser.requests(written(name, tmp_path)) == []


@pytest.mark.parametrize("name", ["violated", "kept", "hostile"])
@pytest.mark.parametrize("width", [1280, 420])
def test_screenshots(name: str, width: int, browser: Browser, tmp_path: Path) -> None:
    page = written(name, tmp_path)
    light, dark = browser.screenshot(page, width, "light"), browser.screenshot(page, width, "dark")
    for png in (light, dark):
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">I", png[16:20]) == (width,)
        assert len(png) > 20_000, "an empty page is smaller"
    assert light != dark


class Outline(HTMLParser):
    """What a screen reader goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.mark.parametrize("name", PAGES)
def test_semantics(name: str, browser: Browser, tmp_path: Path) -> None:
    dom, _ = browser.dom(written(name, tmp_path))
    outline = Outline()
    outline.feed(dom)
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False)), "no level is left out"
    assert [len(outline.of(tag)) for tag in ("header", "main", "footer")] == [1, 1, 1]
    assert outline.of("html") == [{"lang": "en"}]
    ids = Counter(attrs["id"] for _, attrs in outline.tags if "id" in attrs)
    assert not [id_ for id_, count in ids.items() if count > 1]
    named = [attrs[key] for _, attrs in outline.tags for key in ("aria-labelledby", "aria-describedby") if key in attrs]
    linked = [str(attrs["href"]).removeprefix("#") for attrs in outline.of("a")]
    assert {*named, *linked} <= set(ids)
    assert all("scope" in attrs for attrs in outline.of("th"))
    assert all("aria-labelledby" in attrs for attrs in outline.of("table"))
    assert all("aria-hidden" in attrs or attrs.get("role") == "img" for attrs in outline.of("svg"))
    assert all(attrs.get("tabindex") == "0" for attrs in outline.of("div"))


def test_the_samples_have_every_figure() -> None:
    assert REPORTS["violated"].measurements == {"distances": DISTANCES, **PATHS, "flow": FLOW.as_json(), "tokens": TOKENS, "rows": 40}
