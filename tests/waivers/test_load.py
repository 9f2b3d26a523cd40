"""What a waivers file may say; everything else is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected, LimitExceeded
from contract.kinds import waivers_schema
from contract.limits import DEFAULT_LIMITS
from contract.structs import SpecInvalid
from contract.waivers import load_waivers, waivers_path
from contract.waivers.load import covers_rule
from contract.waivers.versions import covers, parse_range, release

from .build import MEASURED, RULES, scope, waiver, write

SCHEMA = Path(__file__).parents[2] / "specs" / "waivers.schema.json"


def test_the_schema_for_editors_is_current(request: pytest.FixtureRequest) -> None:
    text = json.dumps(waivers_schema(), indent=2, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-goldens"):
        SCHEMA.write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text, "run pytest tests/waivers --update-goldens"
    jsonschema.Draft7Validator.check_schema(waivers_schema())
    jsonschema.Draft7Validator(waivers_schema()).validate({"schema_version": 1, "waivers": [waiver(measured=MEASURED)]})


@pytest.mark.parametrize(
    ("spec", "name"), [("d/contract.yaml", "d/contract.waivers.yaml"), ("x.yml", "x.waivers.yaml"), ("c", "c.waivers.yaml")]
)
def test_where_the_waivers_are(spec: str, name: str) -> None:
    assert waivers_path(spec) == Path(name)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"rule": "drafter.file-unlistde"}, "waivers.unknown-rule"),
        ({"rule": "draft.*"}, "waivers.unknown-rule"),
        ({"rule": "waivers.expired"}, "waivers.not-waivable"),
        ({"rule": "policy.*"}, "waivers.not-waivable"),
        ({"rule": "tool.internal-error"}, "waivers.not-waivable"),
        ({"rule": "reading.window"}, "waivers.not-measured"),
        ({"rule": "reading.*"}, "waivers.not-measured"),
        ({"rule": "reading.*", "measured": "seems ok"}, "contract.bad-value"),
        ({"rule": "(a+)+$"}, "contract.bad-value"),
        ({"rule": "*"}, "contract.bad-value"),
        ({"rule": "reading.w*"}, "contract.bad-value"),
        ({"reason": "because"}, "contract.bad-value"),
        ({"reason": None}, "contract.wrong-type"),
        ({"expires": "soon"}, "contract.bad-value"),
        ({"expires": "2026-02-30"}, "contract.bad-value"),
        ({"expires": 20261231}, "contract.wrong-type"),
        ({"scope": {"engine": "sglang"}}, "contract.missing-key"),
        ({"scope": scope("sglang", "0.5.*")}, "contract.bad-value"),
        ({"scope": scope("any", ">=0.5")}, "contract.bad-value"),
        ({"scope": scope("sg lang")}, "contract.bad-value"),
        ({"scope": scope(slot=-1)}, "contract.bad-value"),
        ({"because": "x"}, "contract.unknown-key"),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    path = write(tmp_path, waiver(), waiver(**changes))
    with pytest.raises(SpecInvalid) as refused:
        load_waivers(path, rules=RULES)
    assert [p.rule for p in refused.value.problems] == [rule]
    assert refused.value.where is not None
    assert (refused.value.where.line or 0) > 8, "the place is in the second waiver"


@pytest.mark.parametrize("where", ["rule", "engine", "versions"])
def test_a_pattern_is_as_long_as_the_limit_allows(tmp_path: Path, where: str) -> None:
    text = {"rule": "reading." + "w" * 300, "engine": "e" * 300, "versions": ">=1," * 80 + "<2"}[where]
    changes: dict[str, Any] = (
        {"rule": text} if where == "rule" else {"scope": scope(**{"engine": "sglang", "versions": "any", where: text})}
    )
    with pytest.raises(LimitExceeded) as raised:
        load_waivers(write(tmp_path, waiver(**changes)), rules=RULES)
    assert (raised.value.limit, raised.value.allowed, raised.value.actual) == ("regex_length", 256, len(text))
    assert raised.value.where is not None
    assert raised.value.where.line is not None
    limits = DEFAULT_LIMITS.lowered(regex_length=19)
    good = waiver(rule="drafter.file-unlisted")
    with pytest.raises(LimitExceeded, match="21 > 19"):
        load_waivers(write(tmp_path, good), rules=RULES, limits=limits)
    assert load_waivers(write(tmp_path, good), rules=RULES, limits=DEFAULT_LIMITS.lowered(regex_length=21)).waivers


def test_every_problem_is_told_and_a_near_rule_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, waiver(rule="drafter.file-unlistde"), waiver(rule="reading.window"))
    with pytest.raises(SpecInvalid) as refused:
        load_waivers(path, rules=RULES)
    assert [p.rule for p in refused.value.problems] == ["waivers.unknown-rule", "waivers.not-measured"]
    assert refused.value.fix == "Did you mean drafter.file-unlisted?"


@pytest.mark.parametrize(
    "text", ["", "waivers: [", "schema_version: 2\nwaivers: []\n", "schema_version: 1\nwaivers: &a [*a]\n", "a: 1\na: 2\n"]
)
def test_what_is_no_waivers_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "contract.waivers.yaml"
    path.write_text(text)
    with pytest.raises(InputRejected):
        load_waivers(path, rules=RULES)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "contract.waivers.yaml").mkdir()
    with pytest.raises(InputRejected):
        load_waivers(tmp_path / "contract.waivers.yaml", rules=RULES)


def test_an_area_covers_its_rules_only() -> None:
    assert covers_rule("reading.*", "reading.window")
    assert not covers_rule("reading.*", "readings.window")
    assert not covers_rule("reading.window", "reading.window-x")


@pytest.mark.parametrize("text", ["", "0.5", ">= 0.5 <0.6", "=>1", ">=1.x", "==", ">=0.5,", "~=0.5", ">0.5rc1"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="is no range"):
        parse_range(text)


@pytest.mark.parametrize(
    ("wanted", "version", "inside"),
    [
        ("==0.5", "0.5.0", True),
        ("==0.5.0rc1", "0.5.0rc1", True),
        (">=0.4", "0.5.0rc1", False),
        ("!=0.5", "0.5.0", False),
        (">0.5,<0.6", "0.5.10", True),
        (">0.5.9", "0.5.10", True),
        ("any", None, True),
        ("==0.5", None, False),
        (">=0.5", "0.5.0+cu128", False),
    ],
)
def test_ranges(wanted: str, version: str | None, inside: bool) -> None:
    assert covers(parse_range(wanted), version) is inside


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_a_version_is_below_equal_or_above_another(one: list[int], other: list[int]) -> None:
    a, b = ".".join(map(str, one)), ".".join(map(str, other))
    assert sum(covers(parse_range(f"{sign}{b}"), a) for sign in ("<", "==", ">")) == 1
    assert covers(parse_range(f"<={b}"), a) is not covers(parse_range(f">{b}"), a)
    assert release(a) == release(a + ".0")
