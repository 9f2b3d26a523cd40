"""Phrases that messages share."""

from __future__ import annotations

from contract.words import first_few


def test_the_rest_is_counted() -> None:
    assert first_few([]) == ""
    assert first_few(list("abcd")) == "a, b, c, d"
    assert first_few(list("abcde")) == "a, b, c, d and 1 more"
    assert first_few(list("abc"), 1) == "a and 2 more"
