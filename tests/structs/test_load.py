"""Every problem is told, with its key, its place, and what to write instead."""

from __future__ import annotations

import json

import msgspec
import pytest

from contract.errors import InternalError
from contract.source import parse_yaml
from contract.statement import Statement, fact
from contract.structs import SpecInvalid, load_typed
from structs.sample import VALID, Mode, Rope, Sample


def problems(text: str) -> list[tuple[str, str | None, int | None]]:
    with pytest.raises(SpecInvalid) as caught:
        load_typed(parse_yaml(text, file="c.yaml"), Sample)
    assert all(p.rejected and p.fix for p in caught.value.problems)
    return [(p.rule.removeprefix("contract."), p.where.key, p.where.line) for p in caught.value.problems if p.where]


def only(text: str) -> tuple[str, str]:
    with pytest.raises(SpecInvalid) as caught:
        load_typed(parse_yaml(text), Sample)
    (problem,) = caught.value.problems
    return problem.message, problem.fix or ""


def with_(**changes: object) -> str:
    return "\n".join(f"{k}: {v if isinstance(v, str) else json.dumps(v)}" for k, v in (VALID | changes).items() if v != "absent")


def test_a_valid_document() -> None:
    value = load_typed(parse_yaml(with_(layers="{value: 61, evidence: config, note: n}")), Sample)
    assert isinstance(value.layers, Statement)
    assert (fact(value.layers).value, fact(value.layers).evidence, value.mode) == (61, "config", Mode.PRE)
    assert value.rope == Rope(theta=10000.0)
    assert isinstance(value.rope.theta, float)


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = "layers: 0\nwindow: x\nmode: pre_nrom\nbias: yes\nrope:\n  thta: 1\ntensors: {a: [1, b, 3]}\nunknown_one: 1\n"
    assert problems(text) == [
        ("missing-key", None, 1),
        ("bad-value", "layers", 1),
        ("wrong-type", "window", 2),
        ("bad-value", "mode", 3),
        ("wrong-type", "bias", 4),
        ("missing-key", "rope", 5),
        ("unknown-key", "rope.thta", 6),
        ("bad-value", "tensors.a", 7),
        ("wrong-type", "tensors.a[1]", 7),
        ("unknown-key", "unknown_one", 8),
    ]


@pytest.mark.parametrize(
    ("changes", "message", "fix"),
    [
        ({"layerz": 1}, "unknown key layerz; did you mean layers?", "Did you mean layers?"),
        ({"bias": "yes"}, "found the string 'yes'", "Write true: only true and false are booleans here (YAML 1.2)."),
        ({"bias": "Off"}, "expected true or false", "Write false: only true and false are booleans here (YAML 1.2)."),
        ({"bias": "'true'"}, "found the string 'true'", "Write true without quotes."),
        ({"digest": "0.10"}, "found the number 0.10", 'Write "0.10" in quotes.'),
        ({"digest": "true"}, "found the boolean true", 'Write "true" in quotes.'),
        ({"digest": "sha256:xyz"}, "matching ^sha256:", "Write one of the allowed values."),
        ({"layers": "61.0"}, "a whole number >= 1 and <= 1000", "Write 61, a whole number."),
        ({"layers": "'61'"}, "found the string '61'", "Write 61 without quotes."),
        ({"layers": "1_000"}, "found the string '1_000'", "Write 1000: numbers have no underscores here (YAML 1.2)."),
        ({"layers": "-3"}, "found the whole number -3", "Write one of the allowed values."),
        ({"layers": None}, "found null", "Write the value itself, {value: ..., evidence: ...}, or {unknown: <reason>}."),
        ({"mode": "post_nrom"}, "one of pre_norm, post_norm", "Did you mean post_norm?"),
        ({"boundaries": "3"}, "a list of (a whole number or one of final_norm)", "Write a list: [3]."),
        ({"boundaries": []}, "expected at least 1 items, found 0", "Write one of the allowed values."),
        ({"boundaries": [True]}, "boundaries[0]: expected a whole number", "Write a value of the expected type."),
        ({"rope": {"theta": 0}}, "rope.theta: expected a number > 0", "Write one of the allowed values."),
        ({"rope": "{theta: -1}"}, "found the whole number -1", "Write one of the allowed values."),
        ({"rope": {"theta": 1, "type": "none"}}, "rope: type none has no theta", "Write one of the allowed values."),
        ({"pair": [1]}, "pair: expected 2 items, found 1", "Write one of the allowed values."),
        ({"layers": {"value": 1, "unknown": "x"}}, "exactly one of the keys `value` and `unknown`", "Write one of"),
        ({"layers": {"value": 0}}, "layers.value: expected a whole number >= 1", "Write one of the allowed values."),
        ({"layers": {"valeu": 1}}, "unknown key valeu; did you mean value?", "Did you mean value?"),
        ({"mode": "absent"}, "missing key mode", "State the value"),
    ],
)
def test_message_and_fix(changes: dict[str, object], message: str, fix: str) -> None:
    said, hint = only(with_(**changes))
    assert message in said
    assert hint.startswith(fix)


def test_the_first_problem_is_the_message() -> None:
    with pytest.raises(SpecInvalid, match=r"layers: expected .* found the whole number 0 \(and 1 more\)"):
        load_typed(parse_yaml(with_(layers=0, bias=0)), Sample)


def test_a_struct_that_ignores_keys_is_our_fault() -> None:
    class Loose(msgspec.Struct):
        a: int

    with pytest.raises(InternalError, match="forbid_unknown_fields"):
        load_typed(parse_yaml("a: 1"), Loose)
