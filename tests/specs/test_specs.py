"""Every contract in specs/ loads, says where its editor schema is, and the schema is current."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest
import yaml

from contract.kinds import Kind, contract_schema
from contract.statement import fact
from eagle3_contract.check.statements import walk
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.spec import Contract

from .kimi import KIMI, SPECS

FILES = sorted(SPECS.rglob("*.yaml"))
SCHEMA = SPECS / "contract.schema.json"


def current_schema() -> dict[str, Any]:
    kind = SimpleNamespace(name="eagle3", contract_struct=lambda: Contract)
    return contract_schema(cast(Kind, kind))


def test_schema_is_current(request: pytest.FixtureRequest) -> None:
    text = json.dumps(current_schema(), indent=2, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-goldens"):
        SCHEMA.write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text, "run pytest tests/specs --update-goldens"


def test_there_are_enough() -> None:
    assert len(FILES) >= 36
    assert KIMI in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_spec_loads_and_satisfies_the_schema(path: Path) -> None:
    loaded = load_contract(path)
    jsonschema.Draft7Validator(current_schema()).validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert loaded.contract.kind == "eagle3"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_spec_names_its_schema_and_explains_what_it_does_not_know(path: Path) -> None:
    schema = "contract.schema.json" if path.parent == SPECS else "../contract.schema.json"
    assert path.read_text(encoding="utf-8").startswith(f"# yaml-language-server: $schema={schema}\n")
    for where, statement in walk(load_contract(path).contract):
        known = fact(statement)
        assert known.known or len(known.reason or "") >= 8, where
        if known.known and known.evidence == "assumed":
            assert known.note, where


def test_seed_figures() -> None:
    contract = load_contract(KIMI).contract
    recipe = fact(contract.hidden_states.boundaries)
    assert (recipe.value, recipe.evidence) == ([0, 3, 31], "assumed")
    assert fact(contract.target.layers).value == 61
    assert fact(contract.target.hidden_size).value == 7168
    assert (fact(contract.vocab.draft_size).value, fact(contract.vocab.target_size).value) == (32000, 163840)
    assert fact(contract.training.metrics.accuracy).value == [0.747]
    assert fact(contract.training.metrics.definition).value == "speculators.full_acc"
