"""Engine references and what is not in the table."""

from __future__ import annotations

import pytest

from contract.errors import UsageError
from eagle3_contract.readings.engines import EngineRef, known_engines, parse_engine, read
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.reading import FIELDS, as_json
from eagle3_contract.readings.rules import Profile, Rule
from eagle3_contract.readings.versions import in_force, parse_version, within
from tests.readings.drafters import drafter, target


def test_references() -> None:
    assert parse_engine("sglang") == EngineRef("sglang")
    assert parse_engine("vllm[v2]==0.32.0") == EngineRef("vllm", "v2", "0.32.0")
    assert str(parse_engine("vllm[v2]==0.32.0")) == "vllm[v2]==0.32.0"
    assert parse_engine("SGLang==0.5.13.post1").version == "0.5.13.post1"


@pytest.mark.parametrize(
    "text", ["nobody", "sglang==0.6.0", "sglang==0.4.8", "sglang[v1]", "vllm[v3]", "vllm==0.33.0", "vllm==new", "vllm[v1", ""]
)
def test_what_is_not_in_the_table_is_a_usage_error_that_lists_what_is(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_engine(text)
    assert caught.value.rule == "engines.unknown"
    assert "sglang 0.4.9 to 0.4.10, 0.5.0 to 0.5.23" in caught.value.fix


def test_all_runners_are_read_where_none_is_named_and_only_those_that_exist() -> None:
    assert [r.reader for r in read(drafter(), "vllm", target())] == ["vllm[v1]==0.32.0", "vllm[v2]==0.32.0"]
    assert [r.runner for r in read(drafter(), "vllm==0.16.0", target())] == ["v1"]


def test_the_known_engines_are_described() -> None:
    assert "vllm[v1|v2] 0.9.0 to 0.32.0" in known_engines()


def releases(profile: Profile) -> list[tuple[int, ...]]:
    """Every version at which a rule of the profile begins or ends, and the ends of the spans."""
    rules: list[Rule] = [*profile.rules, *profile.serve, *profile.capture.ids, *(r for c in profile.classes for r in c.rules)]
    choices = [c for r in rules for c in r.choices]
    texts = {v for item in (*rules, *choices, *profile.capture.families, *profile.classes) for v in (item.since, item.until) if v}
    texts |= {v for span in profile.spans for v in span}
    parsed = {p for t in texts if (p := parse_version(t)) is not None}
    return sorted(p for p in parsed if within(p, profile.spans))


@pytest.mark.parametrize("name", PROFILES)
def test_at_every_release_each_target_class_is_in_at_most_one_family(name: str) -> None:
    profile = PROFILES[name]
    for version in releases(profile):
        targets = [t for f in in_force(profile.capture.families, version, None) for t in f.targets]
        assert len(targets) == len(set(targets)), version


@pytest.mark.parametrize("name", PROFILES)
def test_every_rule_has_a_source(name: str) -> None:
    profile = PROFILES[name]
    rules = [*profile.rules, *profile.serve, *profile.capture.ids, profile.capture.enabled, *(r for c in profile.classes for r in c.rules)]
    assert all(r.source for r in rules)
    assert all(f.source for f in profile.capture.families)
    assert all(g.source and g.error for g in (*profile.guards, *(g for c in profile.classes for g in c.guards)))


@pytest.mark.parametrize("name", PROFILES)
def test_at_every_release_and_runner_a_plain_drafter_is_read_with_every_field(name: str) -> None:
    profile = PROFILES[name]
    for version in releases(profile):
        text = ".".join(str(p) for p in version)
        for reading in read(drafter(), f"{name}=={text}", target()):
            shown = as_json(reading)
            assert [f["field"] for f in shown["fields"]][: len(FIELDS)] == list(FIELDS)
            assert all(f["source"] for f in shown["fields"] if f["known"]), (text, [f["field"] for f in shown["fields"] if not f["source"]])
