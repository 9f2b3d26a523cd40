"""docs/limits.md says what contract/limits.py says."""

from __future__ import annotations

from dataclasses import fields

from contract.limits import DEFAULT_LIMITS, Limits
from tools.generate_limits import PAGE, amount, main, meanings, page


def test_every_limit_has_a_meaning_and_the_page_is_current() -> None:
    assert meanings().keys() == {f.name for f in fields(Limits)}
    assert main(["--check"]) == 0, "run python -m tools.generate_limits"
    assert PAGE.read_text(encoding="utf-8") == page()


def test_amounts_have_units() -> None:
    assert amount("header_bytes", DEFAULT_LIMITS.header_bytes) == "100,000,000 bytes"
    assert amount("yaml_bytes", 256 * 1024) == "256 KiB"
    assert amount("pickle_seconds", 120) == "120 s"
    assert amount("shards", 5000) == "5,000"
