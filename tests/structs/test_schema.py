"""The JSON Schema says what the loader says, in the draft that editors read."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import InternalError
from contract.source import parse_yaml
from contract.structs import SpecInvalid, json_schema, load_typed
from structs.sample import VALID, Sample

SCHEMA = json_schema(Sample, id="https://example.org/sample.json", title="A sample")
# JSON has one kind of number, so that draft-07 calls 1.0 an integer; YAML has two, and the loader tells them apart.
_YAML_TYPES = jsonschema.Draft7Validator.TYPE_CHECKER.redefine(
    "integer", lambda _checker, value: isinstance(value, int) and not isinstance(value, bool)
)
VALIDATOR = jsonschema.validators.extend(jsonschema.Draft7Validator, type_checker=_YAML_TYPES)(SCHEMA)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 1003),
    st.sampled_from([0.0, 0.5, 61.0, -1.5]),
    st.sampled_from(["final_norm", "pre_norm", "sha256:00ff", "sha256:00ff ", "x", "", "yes", "config"]),
    st.lists(st.one_of(st.integers(-1, 3), st.just("final_norm"), st.none()), max_size=3),
    st.dictionaries(
        st.sampled_from(["value", "unknown", "evidence", "note", "theta", "type", "a"]), st.integers(0, 2) | st.just("x"), max_size=3
    ),
)
KEYS = st.sampled_from([*VALID, "layerz", "value", "theta"])


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A valid document with up to three changes."""
    document: dict[str, Any] = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(0, 3))):
        key = draw(KEYS)
        if draw(st.booleans()):
            document.pop(key, None)
        else:
            document[key] = draw(VALUES)
    return document


@settings(max_examples=400)
@given(documents())
def test_schema_and_loader_agree(document: dict[str, Any]) -> None:
    try:
        load_typed(parse_yaml(json.dumps(document)), Sample)
        accepted = True
    except SpecInvalid:
        accepted = False
    # A rule of a __post_init__ that the schema cannot know is the one exception; the sample has one.
    ruled = isinstance(document.get("rope"), dict) and document["rope"].get("type") == "none"
    assert VALIDATOR.is_valid(document) == accepted or ruled


def test_the_schema_is_a_draft_07_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    text = json.dumps(SCHEMA)
    assert "$defs" not in text
    assert "prefixItems" not in text
    assert list(SCHEMA)[:2] == ["$schema", "$id"]


def nodes(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [n for item in schema for n in nodes(item)]
    return [schema, *(n for v in schema.values() for n in nodes(v))] if isinstance(schema, dict) else []


def test_no_object_takes_other_keys_and_no_ref_has_siblings() -> None:
    for node in nodes(SCHEMA):
        assert node.get("type") != "object" or "additionalProperties" in node
        assert "$ref" not in node or len(node) == 1


def test_descriptions_are_kept() -> None:
    said = {n["description"] for n in nodes(SCHEMA) if isinstance(n.get("description"), str)}
    assert {"How many.", "Rotary embedding.", "The drafter's own.", "A document."} <= said


def test_a_struct_that_ignores_keys_is_our_fault() -> None:
    class Loose(msgspec.Struct):
        a: int

    with pytest.raises(InternalError, match="forbid_unknown_fields"):
        json_schema(Loose, id="x", title="x")
