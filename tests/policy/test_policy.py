"""A policy tightens; nothing loosens it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from waivers.build import LOUD, MEASURED, TODAY, load, waiver

from contract.errors import InputRejected, LimitExceeded, UsageError
from contract.kinds import policy_schema
from contract.limits import DEFAULT_LIMITS
from contract.policy import load as policy_load
from contract.policy import load_policy, policy_files
from contract.policy.apply import overlap, split_waivers, tightened, tolerance_checks
from contract.policy.load import DEPTHS
from contract.requests import CheckRequest, Integrity, VerifyRequest
from contract.source import parse_yaml
from contract.structs import SpecInvalid

SCHEMA = Path(__file__).parents[2] / "specs" / "policy.schema.json"


def write(path: Path, **content: Any) -> str:
    path.write_text(yaml.safe_dump({"schema_version": 1, **content}), encoding="utf-8")
    return str(path)


def test_the_schema_for_editors_is_current(request: pytest.FixtureRequest) -> None:
    text = json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-goldens"):
        SCHEMA.write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text, "run pytest tests/policy --update-goldens"


def test_without_a_policy_nothing_is_restricted() -> None:
    policy = load_policy([])
    assert (policy.limits, policy.integrity, policy.sources) == (DEFAULT_LIMITS, "headers", ())
    assert list(tolerance_checks(parse_yaml("tolerances: {states: 9.0}"), policy)) == []


def test_every_source_adds_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "system.yaml"
    monkeypatch.setattr(policy_load, "SYSTEM_FILE", system)
    assert policy_files([], environ={}) == []
    system.write_text("schema_version: 1\n")
    assert policy_files(["f", "f"], settings=["s"], environ={"CONTRACT_POLICY": "e1:e2"}) == [str(system), "e1", "e2", "s", "f"]
    assert policy_files([], environ={}) == [str(system)]


def test_of_two_policies_the_stricter_bound_counts(tmp_path: Path) -> None:
    strict = write(
        tmp_path / "a.yaml",
        tolerances={"states": 0.01},
        integrity="digests",
        waivers={"forbidden": ["reading.boundaries"], "max_days": 30},
        limits={"tensors": 1000, "shards": 7},
    )
    lax = write(
        tmp_path / "b.yaml",
        tolerances={"states": 0.5, "logits": 0.1},
        integrity="headers",
        waivers={"forbidden": ["vocab.*"], "max_days": 300},
        limits={"tensors": 2000},
    )
    for files in ([strict, lax], [lax, strict]):
        policy = load_policy(files)
        assert policy.tolerances == {"states": 0.01, "logits": 0.1}
        assert (policy.integrity, policy.max_days) == ("digests", 30)
        assert set(policy.forbidden) == {"reading.boundaries", "vocab.*"}
        assert (policy.limits.tensors, policy.limits.shards) == (1000, 7)
        assert [source["file"] for source in policy.sources] == files


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"tolerance": {"states": 0.1}}, SpecInvalid),
        ({"tolerances": {"states": 0}}, SpecInvalid),
        ({"integrity": "some"}, SpecInvalid),
        ({"waivers": {"forbidden": ["read(ing)*"]}}, SpecInvalid),
        ({"waivers": {"max_days": -1}}, SpecInvalid),
        ({"limits": {"tensors": 10**12}}, UsageError),
        ({"limits": {"tensers": 5}}, UsageError),
        ({"limits": {"tensors": 0}}, UsageError),
    ],
)
def test_what_is_no_policy(tmp_path: Path, content: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        load_policy([write(tmp_path / "p.yaml", **content)])


def test_a_pattern_is_as_long_as_the_limit_allows(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match=r"regex_length: 308 > 256"):
        load_policy([write(tmp_path / "p.yaml", waivers={"forbidden": ["vocab.*", "reading." + "w" * 300]})])
    content = {"waivers": {"forbidden": ["reading.boundaries"]}, "limits": {"regex_length": 17}}
    with pytest.raises(LimitExceeded, match="18 > 17"):
        load_policy([write(tmp_path / "p.yaml", **content)])
    content["limits"] = {"regex_length": 18}
    assert load_policy([write(tmp_path / "p.yaml", **content)]).limits.regex_length == 18


def test_a_policy_that_is_missing_or_infinite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRejected):
        load_policy([str(tmp_path / "absent.yaml")])
    (tmp_path / "p.yaml").write_text("schema_version: 1\ntolerances: {states: .inf}\n")
    with pytest.raises(InputRejected):
        load_policy([str(tmp_path / "p.yaml")])


@pytest.mark.parametrize(
    ("stated", "status", "rejected"),
    [("0.2", "unknown", True), ("0.1", "passed", False), ("0.05", "passed", False), ("null", "passed", False)],
)
def test_a_tolerance_above_the_ceiling_is_rejected_at_its_line(tmp_path: Path, stated: str, status: str, rejected: bool) -> None:
    policy = load_policy([write(tmp_path / "p.yaml", tolerances={"states": 0.1})])
    document = parse_yaml(f"kind: x\ntolerances:\n  states: {stated}\n  logits: null\n", file="c.yaml")
    (check,) = tolerance_checks(document, policy)
    assert (check.status, check.rejected) == (status, rejected)
    assert check.rule == "policy.tolerance-too-loose"
    assert check.where is not None
    assert (check.where.file, check.where.line) == ("c.yaml", 3)


def test_a_ceiling_for_nothing_is_rejected(tmp_path: Path) -> None:
    policy = load_policy([write(tmp_path / "p.yaml", tolerances={"stats": 0.1})])
    (check,) = tolerance_checks(parse_yaml("tolerances: {states: null, logits: null}"), policy)
    assert (check.rule, check.rejected, check.fix) == ("policy.unknown-tolerance", True, "Did you mean states?")


@pytest.mark.parametrize("asked", DEPTHS)
@pytest.mark.parametrize("demanded", DEPTHS)
def test_the_depth_of_reading_only_rises(tmp_path: Path, asked: Integrity, demanded: Integrity) -> None:
    policy = load_policy([write(tmp_path / "p.yaml", integrity=demanded, tolerances={"states": 0.1})])
    deeper = max(asked, demanded, key=DEPTHS.index)
    assert tightened(CheckRequest(spec="c", integrity=asked), policy).integrity == deeper
    verify = tightened(VerifyRequest(spec="c", integrity=asked), policy)
    assert (verify.integrity, verify.ceilings) == (deeper, {"states": 0.1})


def test_forbidden_and_too_long_waivers_are_rejected_and_do_not_hold(tmp_path: Path) -> None:
    policy = load_policy([write(tmp_path / "p.yaml", waivers={"forbidden": ["reading.window"], "max_days": 30})])
    near, far = str(TODAY + timedelta(days=30)), str(TODAY + timedelta(days=31))
    waivers = load(tmp_path, waiver(expires=near), waiver(expires=far), waiver(rule="reading.*", expires=near, measured=MEASURED))
    kept, refused = split_waivers(waivers, policy, today=TODAY)
    assert [(w.rule, w.expires) for w in kept.waivers] == [(LOUD.id, near)]
    assert [(c.rule, c.rejected) for c in refused] == [("policy.waiver-too-long", True), ("policy.waiver-forbidden", True)]


AREA = st.sampled_from(["a.b", "a.c", "b.b", "a.*", "b.*"])


@given(AREA, AREA)
def test_overlap_is_what_some_rule_shows(one: str, other: str) -> None:
    from contract.waivers.load import covers_rule

    rules = ("a.b", "a.c", "b.b")
    assert overlap(one, other) is any(covers_rule(one, r) and covers_rule(other, r) for r in rules)


POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "tolerances": st.dictionaries(st.sampled_from(["states", "logits"]), st.floats(1e-6, 1.0)),
        "integrity": st.sampled_from(DEPTHS),
        "waivers": st.fixed_dictionaries({}, optional={"forbidden": st.lists(AREA), "max_days": st.integers(0, 400)}),
        "limits": st.dictionaries(st.sampled_from(["tensors", "shards"]), st.integers(1, 5000)),
    },
)


@given(st.lists(POLICIES, max_size=4), POLICIES)
def test_one_more_policy_never_loosens(tmp_path_factory: pytest.TempPathFactory, some: list[dict[str, Any]], more: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("policies")
    files = [write(folder / f"{n}.yaml", **content) for n, content in enumerate([*some, more])]
    before, after = load_policy(files[:-1]), load_policy(files)
    assert all(after.tolerances[name] <= ceiling for name, ceiling in before.tolerances.items())
    assert DEPTHS.index(after.integrity) >= DEPTHS.index(before.integrity)
    assert set(after.forbidden) >= set(before.forbidden)
    assert before.max_days is None or (after.max_days is not None and after.max_days <= before.max_days)
    assert all(getattr(after.limits, n) <= getattr(before.limits, n) for n in ("tensors", "shards", "samples"))
    assert len(after.sources) == len(files)
