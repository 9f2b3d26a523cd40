"""Hostile JSON configs, numbered."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import InputRejected, LimitExceeded
from contract.jsonio import load_json, load_json_file
from contract.limits import DEFAULT_LIMITS


def refuses(data: bytes, rule: str) -> InputRejected:
    with pytest.raises(InputRejected) as caught:
        load_json(data, file="config.json")
    assert caught.value.rule == rule
    return caught.value


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_68_constants_that_are_no_json(constant: str) -> None:
    error = refuses(b'{"note": "NaN",\n "eps": %s}' % constant.encode(), "files.json-constant")
    assert error.where is not None
    assert (error.where.line, error.where.column) == (2, 9)


@pytest.mark.parametrize("text", ['{"a": 1,\n "a": 1}', '{"a": 1,\n "\\u0061": 1}', '[{"x": {"a": "}", \n"a": []}}]'])
def test_68_duplicate_keys_are_both_named(text: str) -> None:
    message = refuses(text.encode(), "files.json-duplicate-key").message
    assert "line 1" in message
    assert "line 2" in message


@pytest.mark.parametrize("text", ["{'a': 1}", '{"a": 1,}', "", '{"a": 1} x', "{a: 1}", '"\\ud800"', '{"a": 01}', '{"a": 1e999}', '"\t"'])
def test_68_syntax(text: str) -> None:
    refuses(text.encode(), "files.json-syntax")


def test_68_encoding() -> None:
    refuses(b"\xef\xbb\xbf{}", "files.json-not-utf8")
    refuses(b'{"a": "\xff"}', "files.json-not-utf8")
    refuses('{"a": 1}'.encode("utf-16"), "files.json-not-utf8")


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_69_nesting_100k_deep(opening: bytes) -> None:
    refuses(opening * 100_000, "files.json-too-deep")


def test_69_depth_is_a_limit() -> None:
    deepest = DEFAULT_LIMITS.json_depth
    assert load_json(b"[" * deepest + b"]" * deepest)
    refuses(b"[" * (deepest + 1) + b"]" * (deepest + 1), "files.json-too-deep")


def test_69_size_is_a_limit(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(" " * 100)
    with pytest.raises(LimitExceeded) as caught:
        load_json_file(tmp_path / "config.json", limits=DEFAULT_LIMITS.lowered(json_bytes=99))
    assert (caught.value.allowed, caught.value.actual) == (99, 100)
