"""The documentation site: built with warnings as errors, every generated page in it, nothing fetched from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from contract.rules import all_rules
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.trainers.base import installed

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # The theme says on every build that mkdocs 2 will break it; pyproject.toml asks for mkdocs 1.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    line = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_a_page_for_every_rule_engine_and_trainer(site: Path) -> None:
    expected = (
        [f"rules/{rule.id}" for rule in all_rules()] + [f"engines/{name}" for name in PROFILES] + [f"trainers/{n}" for n in installed()]
    )
    expected += ["exit-codes", "json-report", "adr", "extending", "stability", "why-is-my-acceptance-low"]
    assert [page for page in expected if not (site / page / "index.html").exists()] == []


def test_a_rules_page_says_what_explain_says(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "rules" / "states.recipe" / "index.html").read_text(encoding="utf-8"))
    rule = next(r for r in all_rules() if r.id == "states.recipe")
    assert rule.title in text
    assert "What to do" in text


def test_an_engines_page_has_its_sources(site: Path) -> None:
    page = (site / "engines" / "sglang" / "index.html").read_text(encoding="utf-8")
    assert "eagle_config.eagle_aux_hidden_state_layer_ids" in page
    assert re.search(r"models/<wbr>llama\.py:\d+", page)


class Fetched(HTMLParser):
    """What a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        fetched = found.get("href") if tag == "link" and found.get("rel") not in ("canonical", "next", "prev") else found.get("src")
        if fetched:
            self.urls.append(fetched)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    parser = Fetched()
    for page in site.rglob("*.html"):
        parser.feed(page.read_text(encoding="utf-8"))
    assert len(set(parser.urls)) > 3
    assert [url for url in set(parser.urls) if re.match(r"(?:[a-z]+:)?//", url)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet
