"""``contract upgrade``: a current contract stays as it is, an older one is brought forward step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.conftest import Ran
from cli.fake import FakeKind
from contract.errors import InputRejected, InternalError
from contract.source import parse_yaml
from contract.source.header import NEWEST_SCHEMA_VERSION, OLDEST_SCHEMA_VERSION
from contract.upgrading import MIGRATIONS, Migration, upgraded

Run = Callable[..., Ran]
OLD = "schema_version: 1\nkind: fake\nname: 'no'\nids: [2, 4]\n"


def _rename(document: Mapping[str, Any]) -> dict[str, Any]:
    return {("boundaries" if key == "ids" else key): value for key, value in document.items()}


def _add(document: Mapping[str, Any]) -> dict[str, Any]:
    return {**document, "window": {"unknown": "contracts of version 2 did not say"}}


STEPS = (
    Migration(old=1, kind=None, changes=("ids is called boundaries",), apply=_rename),
    Migration(old=2, kind="fake", changes=("window was added, unknown",), apply=_add),
    Migration(old=2, kind="other", changes=("never",), apply=lambda document: {}),
)


def test_a_current_contract_stays_as_it_is(run_line: Run, kind: FakeKind, spec: str) -> None:
    before = Path(spec).read_bytes()
    ran = run_line("upgrade", spec)
    assert (ran.code, ran.out) == (0, "c.yaml is current: version 1 of the contract file\n")
    assert Path(spec).read_bytes() == before
    assert json.loads(run_line("upgrade", spec, "--format", "json").out)["written"] is None


@pytest.mark.parametrize("text", ["schema_version: 9\nkind: fake\n", "schema_version: 0\nkind: fake\n", "kind: fake\n", "a: [\n"])
def test_what_cannot_be_upgraded(run_line: Run, kind: FakeKind, spec: str, text: str) -> None:
    Path(spec).write_text(text)
    assert run_line("upgrade", spec).code == 2
    assert Path(spec).read_text() == text


def test_every_step_in_order() -> None:
    found = upgraded(parse_yaml(OLD), migrations=STEPS, newest=3)
    assert (found.old, found.new, found.changes) == (1, 3, ("ids is called boundaries", "window was added, unknown"))
    assert found.text is not None
    assert list(yaml.safe_load(found.text).items()) == [
        ("schema_version", 3),
        ("kind", "fake"),
        ("name", "no"),
        ("boundaries", [2, 4]),
        ("window", {"unknown": "contracts of version 2 did not say"}),
    ]
    assert parse_yaml(found.text), "what is written is strict YAML again"


def test_without_a_step_or_a_version() -> None:
    with pytest.raises(InternalError):
        upgraded(parse_yaml(OLD), migrations=STEPS[1:], newest=3)
    with pytest.raises(InputRejected):
        upgraded(parse_yaml("schema_version: 1\n"), migrations=STEPS, newest=3)


def test_an_upgrade_is_written_in_place_or_elsewhere(run_line: Run, kind: FakeKind, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from contract.cli import upgrade

    monkeypatch.setattr(upgrade, "upgraded", lambda document: upgraded(document, migrations=STEPS, newest=3))
    Path(spec).write_text(OLD)
    ran = run_line("upgrade", spec, "-o", "new.yaml")
    assert ran.out.splitlines()[0] == "new.yaml: upgraded from version 1 to 3"
    assert Path(spec).read_text() == OLD
    run_line("upgrade", spec)
    assert Path(spec).read_text() == Path("new.yaml").read_text()


def test_there_is_a_step_from_every_version() -> None:
    assert {m.old for m in MIGRATIONS} >= set(range(OLDEST_SCHEMA_VERSION, NEWEST_SCHEMA_VERSION))
