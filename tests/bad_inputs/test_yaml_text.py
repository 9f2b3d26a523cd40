"""Bad inputs 51-60 and 62-64: what the text of a contract may not do. Each has the rule, the line and the column it is told by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contract.errors import InputRejected
from contract.source import parse_yaml, read_yaml
from contract.source.nodes import to_plain

ALIAS_BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 8)}]\n" for i in range(12)
)

REJECTED = [
    pytest.param(ALIAS_BOMB, "contract.yaml-alias", 1, 4, id="51-alias-bomb"),
    pytest.param("a: 1\nb: *x\n", "contract.yaml-alias", 2, 4, id="51-bare-alias"),
    pytest.param("a: &a [*a]\n", "contract.yaml-alias", 1, 4, id="52-recursive-alias"),
    pytest.param("a: &self\n  b: *self\n", "contract.yaml-alias", 1, 4, id="52-recursive-mapping"),
    pytest.param("x: !!python/object/apply:os.system [id]\n", "contract.yaml-tag", 1, 4, id="53-python-object"),
    pytest.param("x: !custom 1\n", "contract.yaml-tag", 1, 4, id="53-local-tag"),
    pytest.param("x: !!str 010\n", "contract.yaml-tag", 1, 4, id="53-harmless-tag"),
    pytest.param("x: ! 1\n", "contract.yaml-tag", 1, 4, id="53-non-specific-tag"),
    pytest.param("!!set {a: null}\n", "contract.yaml-tag", 1, 1, id="53-set"),
    pytest.param("a: 1\nb: 2\na: 3\n", "contract.yaml-duplicate-key", 3, 1, id="54-duplicate"),
    pytest.param('a: 1\n"a": 3\n', "contract.yaml-duplicate-key", 2, 1, id="54-duplicate-quoted"),
    pytest.param("w: {x: 1, y: 2, x: 1}\n", "contract.yaml-duplicate-key", 1, 17, id="54-duplicate-flow"),
    pytest.param("a: 1\n---\na: 2\n", "contract.yaml-multiple-documents", 2, 1, id="55-two-documents"),
    pytest.param("---\na: 1\n...\n---\n", "contract.yaml-multiple-documents", 4, 1, id="55-empty-second"),
    pytest.param("", "contract.yaml-empty", 1, 1, id="56-empty"),
    pytest.param("\n# only a comment\n", "contract.yaml-empty", 1, 1, id="56-comment"),
    pytest.param("---\n", "contract.yaml-empty", 1, 1, id="56-marker"),
    pytest.param("a:\n\tb: 1\n", "contract.yaml-tab", 2, 1, id="57-tab"),
    pytest.param("a:\n  - b\n \t- c\n", "contract.yaml-tab", 3, 2, id="57-tab-in-a-plain-scalar"),
    pytest.param("layers: [010, 29, 57]\n", "contract.yaml-leading-zero", 1, 10, id="59-octal"),
    pytest.param("x: -007\n", "contract.yaml-leading-zero", 1, 4, id="59-negative"),
    pytest.param("x: 00.5\n", "contract.yaml-leading-zero", 1, 4, id="59-float"),
    pytest.param("x: 0o17\n", "contract.yaml-number-notation", 1, 4, id="59-octal-1.2"),
    pytest.param("x: 0x1F\n", "contract.yaml-number-notation", 1, 4, id="59-hexadecimal"),
    pytest.param("tolerance: .nan\n", "contract.yaml-number-range", 1, 12, id="61-nan"),
    pytest.param("tolerance: -.inf\n", "contract.yaml-number-range", 1, 12, id="61-inf"),
    pytest.param("tolerance: 1e999\n", "contract.yaml-number-range", 1, 12, id="61-overflow"),
    pytest.param("n: 18446744073709551616\n", "contract.yaml-number-range", 1, 4, id="61-too-long"),
    pytest.param("n: 1" + "0" * 5000 + "\n", "contract.yaml-number-range", 1, 4, id="61-5000-digits"),
    pytest.param("1: a\n", "contract.yaml-key-not-string", 1, 1, id="62-int-key"),
    pytest.param("true: a\n", "contract.yaml-key-not-string", 1, 1, id="62-bool-key"),
    pytest.param("null: a\n", "contract.yaml-key-not-string", 1, 1, id="62-null-key"),
    pytest.param("a: 1\n: b\n", "contract.yaml-syntax", 2, 1, id="62-empty-key"),
    pytest.param("? [a, b]\n: 1\n", "contract.yaml-key-not-string", 1, 3, id="62-sequence-key"),
    pytest.param("{a: 1}: 2\n", "contract.yaml-key-not-string", 1, 1, id="62-mapping-key"),
    pytest.param("a: {<<: {b: 1}}\n", "contract.yaml-merge-key", 1, 5, id="merge-key"),
    pytest.param("x: " + "[" * 20_000, "contract.yaml-too-deep", 1, 1003, id="64-20k-brackets"),
    pytest.param("x: " + "[" * 900 + "]" * 900, "contract.yaml-too-deep", 1, 35, id="64-900-brackets"),
    pytest.param("".join(" " * i + "a:\n" for i in range(40)), "contract.yaml-too-deep", 33, 33, id="64-block"),
    pytest.param("[" + "1," * 20_000 + "]", "contract.yaml-too-many-nodes", 1, 40_000, id="nodes"),
    pytest.param("a: [1, 2\n", "contract.yaml-syntax", 2, 1, id="syntax"),
    pytest.param("a: b: c\n", "contract.yaml-syntax", 1, 5, id="syntax-colon"),
    pytest.param("a: 1\n\x1b[31mb: 2\n", "contract.control-character", 2, 1, id="escape"),
    pytest.param('a: "x\\e[31m"\n', "contract.control-character", 1, 4, id="escaped-escape"),
    pytest.param('a: "\\u202e"\n', "contract.control-character", 1, 4, id="escaped-bidi"),
    pytest.param("# fine \u202e\na: 1\n", "contract.control-character", 1, 8, id="bidi"),
    pytest.param("# comment\u2028a: 1\n", "contract.control-character", 1, 10, id="line-separator"),
    pytest.param("# comment\ra: 1\n", "contract.control-character", 1, 10, id="lone-cr"),
    pytest.param(b"a: 1\nb: \xff\n", "contract.encoding", 2, 4, id="latin-1"),
    pytest.param(b"\xef\xbb\xbfa: 1\n", "contract.encoding", 1, 1, id="bom"),
    pytest.param("a: 1\n".encode("utf-16"), "contract.encoding", 1, 1, id="utf-16"),
    pytest.param("a: \ud800\n", "contract.encoding", 1, 4, id="surrogate"),
]


@pytest.mark.parametrize(("text", "rule", "line", "column"), REJECTED)
def test_rejected_with_rule_and_place(text: str | bytes, rule: str, line: int, column: int) -> None:
    with pytest.raises(InputRejected) as caught:
        parse_yaml(text, file="contract.yaml")
    where = caught.value.where
    assert where is not None
    assert (caught.value.rule, where.file, where.line, where.column) == (rule, "contract.yaml", line, column)
    assert caught.value.fix


def test_54_both_line_numbers() -> None:
    with pytest.raises(InputRejected, match=r"'layers' of line 2 is given again in line 4"):
        parse_yaml("target:\n  layers: 1\n  id: x\n  layers: 2\n", file="c")


def test_58_exponents_are_numbers() -> None:
    document = parse_yaml("a: 1e-3\nb: 1.0e-3\nc: -2E+4\nd: .5\ne: 7.\n")
    values = to_plain(document.root)
    assert values == {"a": 0.001, "b": 0.001, "c": -20000.0, "d": 0.5, "e": 7.0}
    assert all(type(v) is float for v in values.values())


def test_59_the_fix_names_the_number() -> None:
    with pytest.raises(InputRejected) as caught:
        parse_yaml("layers: [029]\n")
    assert "29" in caught.value.fix.split()[1]


def test_60_only_true_and_false_are_booleans() -> None:
    text = "a: yes\nb: no\nc: on\nd: off\ne: True\nf: true\ng: false\nh: 2026-01-02\ni: 1_000\nj: 1:30\nk: NULL\nl: ~\nm:\n"
    assert to_plain(parse_yaml(text).root) == {
        "a": "yes",
        "b": "no",
        "c": "on",
        "d": "off",
        "e": "True",
        "f": True,
        "g": False,
        "h": "2026-01-02",
        "i": "1_000",
        "j": "1:30",
        "k": "NULL",
        "l": None,
        "m": None,
    }


def test_quoted_scalars_are_strings() -> None:
    text = "a: '010'\nb: \"true\"\nc: '.nan'\nd: ''\ne: |\n  1\n"
    assert to_plain(parse_yaml(text).root) == {"a": "010", "b": "true", "c": ".nan", "d": "", "e": "1\n"}


def test_the_deepest_and_largest_allowed() -> None:
    assert parse_yaml("[" * 32 + "]" * 32).root is not None
    assert len(to_plain(parse_yaml("[" + "1," * 19_999 + "]").root)) == 19_999


def test_63_five_megabytes(tmp_path: Path) -> None:
    big = tmp_path / "big.yaml"
    big.write_text("a: 1\n" + "# filler\n" * 600_000)
    with pytest.raises(InputRejected, match=r"yaml_bytes: .* > 262144") as caught:
        read_yaml(big)
    assert caught.value.rule == "contract.file-too-large"
    with pytest.raises(InputRejected, match="yaml_bytes"):
        parse_yaml(big.read_bytes())


def test_files_that_are_none(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (tmp_path, fifo, tmp_path / "absent", tmp_path / ("x" * 300), "nul\0byte"):
        with pytest.raises(InputRejected) as caught:
            read_yaml(path, file="contract.yaml")
        assert caught.value.rule == "contract.file-unreadable"


def test_crlf_and_unicode_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("a: α\r\nb: 中文 😀\r\n".encode())
    assert to_plain(read_yaml(path).root) == {"a": "α", "b": "中文 😀"}
