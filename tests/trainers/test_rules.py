"""Every rule that a sample, a trainer's adapter or a metric can raise has its page."""

from __future__ import annotations

import re
from pathlib import Path

import eagle3_contract
from eagle3_contract.trainers.rules import RULES

ROOT = Path(eagle3_contract.__file__).parent
SOURCES = [
    *(ROOT / "trainers").rglob("*.py"), *(ROOT / "vocab").glob("*.py"), ROOT / "model" / "load_view.py", ROOT / "verify" / "metrics.py",
]  # fmt: skip


def raised() -> set[str]:
    found = set()
    for path in SOURCES:
        text = path.read_text()
        found |= set(re.findall(r'rule="([a-z]+\.[a-z-]+)"', text))
        if path.name == "sample.py" or "trainers.sample " in text or "trainers.sample import" in text:
            found |= {f"samples.{what}" for what in re.findall(r'rejected\(\s*"([a-z-]+)"', text)}
    return found


def test_what_is_raised_and_what_is_explained_are_the_same() -> None:
    assert len(raised()) > 20
    assert raised() == set(RULES)


def test_every_page_says_something() -> None:
    for rule in RULES.values():
        assert rule.title
        assert rule.why
        assert rule.remedy
