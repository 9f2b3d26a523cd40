"""Bad inputs 60, 61 and 65: what a contract may not say. The loader names the key, the line and what was probably meant."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from contract.errors import InputRejected
from contract.source import parse_yaml
from contract.statement import Stated
from contract.structs import SpecInvalid, load_typed


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    layers: Stated[int]
    name: Stated[str]
    bias: Stated[bool]
    tolerance: Annotated[float, msgspec.Meta(ge=0, le=1)]


VALID = {"layers": "61", "name": "x", "bias": "true", "tolerance": "1e-3"}


def text(**changes: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in (VALID | changes).items())


def test_the_clean_twin() -> None:
    assert load_typed(parse_yaml(text()), Part) == Part(layers=61, name="x", bias=True, tolerance=0.001)


@pytest.mark.parametrize("word", ["no", "yes", "on", "off", "True", "n"])
def test_60_a_word_is_a_string_where_a_string_is_due(word: str) -> None:
    assert load_typed(parse_yaml(text(name=word)), Part).name == word


@pytest.mark.parametrize(("word", "meant"), [("no", "false"), ("yes", "true"), ("on", "true"), ("OFF", "false"), ("True", "true")])
def test_60_a_word_where_a_boolean_is_due(word: str, meant: str) -> None:
    with pytest.raises(SpecInvalid) as caught:
        load_typed(parse_yaml(text(bias=word), file="c.yaml"), Part)
    (problem,) = caught.value.problems
    assert (problem.rule, str(problem.where)) == ("contract.wrong-type", "c.yaml:3:1 key bias")
    assert problem.fix is not None
    assert problem.fix.startswith(f"Write {meant}:")


@pytest.mark.parametrize(("word", "quoted"), [("0.10", '"0.10"'), ("12", '"12"'), ("true", '"true"')])
def test_60_a_number_where_a_string_is_due(word: str, quoted: str) -> None:
    with pytest.raises(SpecInvalid) as caught:
        load_typed(parse_yaml(text(name=word)), Part)
    assert caught.value.fix == f"Write {quoted} in quotes."


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("-1e-3", "contract.bad-value"),
        ("2.0", "contract.bad-value"),
        (".inf", "contract.yaml-number-range"),
        (".nan", "contract.yaml-number-range"),
        ("'1e-3'", "contract.wrong-type"),
        ("null", "contract.wrong-type"),
    ],
)
def test_61_a_tolerance_that_is_none(value: str, rule: str) -> None:
    with pytest.raises(InputRejected) as caught:
        load_typed(parse_yaml(text(tolerance=value)), Part)
    assert caught.value.rule == rule
    assert caught.value.where is not None
    assert caught.value.where.line == 4


def test_65_a_misspelt_key() -> None:
    with pytest.raises(SpecInvalid) as caught:
        load_typed(parse_yaml(text().replace("layers", "layerz")), Part)
    missing, unknown = caught.value.problems
    assert (missing.rule, unknown.rule) == ("contract.missing-key", "contract.unknown-key")
    assert unknown.fix == "Did you mean layers?"
    assert unknown.where is not None
    assert (unknown.where.line, unknown.where.key) == (1, "layerz")
