"""Bad input 66: schema_version and kind."""

from __future__ import annotations

import pytest

from contract.errors import InputRejected
from contract.source import parse_yaml
from contract.source.header import read_header


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("kind: eagle3\nschema_version: 2\n", "contract.schema-version", 2),
        ("kind: eagle3\nschema_version: 0\n", "contract.schema-version", 2),
        ("kind: eagle3\nschema_version: true\n", "contract.schema-version", 2),
        ("kind: eagle3\nschema_version: '1'\n", "contract.schema-version", 2),
        ("kind: eagle3\n", "contract.schema-version", 1),
        ("schema_version: 1\n", "contract.kind", 1),
        ("schema_version: 1\nkind: [eagle3]\n", "contract.kind", 2),
        ("schema_version: 1\nkind: eagel3\n", "contract.kind", 2),
        ("- 1\n", "contract.kind", 1),
    ],
)
def test_66_rejected(text: str, rule: str, line: int) -> None:
    with pytest.raises(InputRejected) as caught:
        read_header(parse_yaml(text), kinds=["eagle3", "medusa"])
    assert caught.value.where is not None
    assert (caught.value.rule, caught.value.where.line) == (rule, line)


def test_66_newer_says_upgrade() -> None:
    with pytest.raises(InputRejected, match="newer than this tool knows") as caught:
        read_header(parse_yaml("schema_version: 99\nkind: eagle3\n"))
    assert "pgrade" in caught.value.fix


def test_nearest_kind() -> None:
    with pytest.raises(InputRejected) as caught:
        read_header(parse_yaml("schema_version: 1\nkind: eagel3\n"), kinds=["eagle3"])
    assert caught.value.fix == "Did you mean eagle3?"


def test_accepted() -> None:
    header = read_header(parse_yaml("schema_version: 1\nkind: eagle3\n"), kinds=["eagle3"])
    assert (header.schema_version, header.kind) == (1, "eagle3")
