"""Waivers, policy and configuration through the real command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.conftest import Ran
from cli.fake import RULE, FakeKind, report
from contract.requests import CheckRequest, VerifyRequest

Run = Callable[..., Ran]
MEASURED = "accepted length 2.41 with and 2.43 without, 200 prompts"


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)


def waive(days: int = 10, **changes: Any) -> None:
    waiver = {
        "rule": "fake.rule",
        "scope": {"engine": "any", "versions": "any"},
        "reason": "known and accepted",
        "expires": str(datetime.now(UTC).date() + timedelta(days=days)),
        "measured": MEASURED,
        **changes,
    }
    Path("c.waivers.yaml").write_text(yaml.safe_dump({"schema_version": 1, "waivers": [waiver]}))


def policy(name: str = "p.yaml", **content: Any) -> str:
    Path(name).write_text(yaml.safe_dump({"schema_version": 1, **content}))
    return name


def document(ran: Ran) -> Any:
    return json.loads(ran.out)


@pytest.mark.parametrize("command", ["check", "verify"])
def test_a_waiver_beside_the_contract(run_line: Run, kind: FakeKind, spec: str, command: str) -> None:
    kind.result = report(failed=1)
    assert run_line(command, spec).code == 1
    waive()
    ran = run_line(command, spec, "--format", "json")
    assert (ran.code, document(ran)["checks"][0]["status"]) == (0, "waived")
    waive(days=-1)
    ran = run_line(command, spec, "--format", "json")
    assert ran.code == 1
    assert [c["rule"] for c in document(ran)["checks"] if c["status"] == "failed"] == ["fake.rule", "waivers.expired"]


def test_a_waived_first_failure_does_not_end_the_run(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    run_line("verify", spec, "--fail-fast")
    assert isinstance(kind.asked, VerifyRequest)
    assert kind.asked.fail_fast
    waive()
    run_line("verify", spec, "--fail-fast")
    assert not kind.asked.fail_fast


@pytest.mark.parametrize("text", ["waivers: [", "schema_version: 1\nwaivers: [{rule: fake.rule}]\n"])
def test_waivers_that_cannot_be_used_are_exit_2_beside_every_finding(run_line: Run, kind: FakeKind, spec: str, text: str) -> None:
    kind.result = report(failed=1)
    Path("c.waivers.yaml").write_text(text)
    ran = run_line("check", spec, "--format", "json")
    assert (ran.code, document(ran)["verdict"]) == (2, "violated")
    assert document(ran)["checks"][0]["rule"] == "fake.rule"


def test_a_dangling_link_is_a_waivers_file_that_cannot_be_read(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    Path("c.waivers.yaml").symlink_to("absent")
    assert run_line("check", spec).code == 2


def test_waivers_in_order_prove_nothing(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report()
    waive()
    Path(spec).write_text("schema_version: 1\nkind: fake\ntolerances: {states: 0.01}\n")
    assert run_line("check", spec, "--policy", policy(tolerances={"states": 0.1}, integrity="digests")).code == 3


def test_a_policy_tightens_the_request_and_refuses_the_contract(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    Path(spec).write_text("schema_version: 1\nkind: fake\ntolerances: {states: 0.01, logits: null}\n")
    strict = policy(tolerances={"states": 0.02}, integrity="digests", limits={"shards": 3})
    ran = run_line("check", spec, "--policy", strict, "--integrity", "values", "--format", "json")
    assert ran.code == 0
    assert isinstance(kind.asked, CheckRequest)
    assert (kind.asked.integrity, kind.asked.limits.shards, kind.asked.ceilings) == ("digests", 3, {"states": 0.02})
    assert document(ran)["provenance"]["policy"][0]["file"] == strict
    ran = run_line("check", spec, "--policy", policy(tolerances={"states": 0.005}), "--format", "json")
    assert (ran.code, document(ran)["checks"][-1]["rule"]) == (2, "policy.tolerance-too-loose")


def test_no_flag_and_no_configuration_replaces_the_policy(
    run_line: Run, kind: FakeKind, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.result = report(failed=1)
    waive()
    strict, lax = policy("strict.yaml", waivers={"forbidden": [RULE.id]}), policy("lax.yaml")
    Path("contract.toml").write_text(f"policy = ['{lax}']\n")
    assert run_line("check", spec).code == 0
    monkeypatch.setenv("CONTRACT_POLICY", strict)
    ran = run_line("check", spec, "--policy", lax, "--format", "json")
    assert (ran.code, document(ran)["checks"][0]["status"]) == (2, "failed")
    assert "policy.waiver-forbidden" in {c["rule"] for c in document(ran)["checks"]}


@pytest.mark.parametrize("content", [{"limits": {"shards": 10**9}}, {"tolerance": {}}])
def test_a_policy_that_cannot_be_used_verifies_nothing(run_line: Run, kind: FakeKind, spec: str, content: dict[str, Any]) -> None:
    kind.result = report(passed=1)
    assert run_line("check", spec, "--policy", policy(**content)).code == 2
    assert run_line("check", spec, "--policy", "absent.yaml").code == 2
    assert kind.asked is None


def test_flags_win_over_the_environment_over_files(run_line: Run, kind: FakeKind, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind.result = report(passed=1)
    Path("contract.toml").write_text("target = 't'\nintegrity = 'values'\nengines = ['vllm']\nformat = ['json']\n")
    ran = run_line("check", spec)
    here = str(Path.cwd() / "t")
    assert kind.asked == CheckRequest(spec=spec, target=here, integrity="values", engines=("vllm",))
    assert document(ran)["exit_code"] == 0
    monkeypatch.setenv("CONTRACT_INTEGRITY", "digests")
    run_line("check", spec, "--engine", "sglang", "--target", "u")
    assert kind.asked == CheckRequest(spec=spec, target="u", integrity="digests", engines=("sglang",))


def test_a_wrong_configuration_stops_only_what_would_use_it(run_line: Run, kind: FakeKind, spec: str) -> None:
    kind.result = report(passed=1)
    Path("contract.toml").write_text("integritee = 'values'\n")
    ran = run_line("check", spec)
    assert (ran.code, ran.out, kind.asked) == (2, "", None)
    assert "contract.toml integritee" in ran.err.replace("key ", "")
    assert "Did you mean integrity?" in ran.err
    assert run_line("version").code == run_line("--help").code == 0
    assert run_line("config").code == 2


def test_config_shows_values_and_origins(run_line: Run, kind: FakeKind, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("contract.toml").write_text("target = 't'\n")
    monkeypatch.setenv("CONTRACT_INTEGRITY", "digests")
    monkeypatch.setenv("CONTRACT_DEVISE", "cpu")
    text = run_line("config", "--show-origin").out
    assert "integrity = digests  [CONTRACT_INTEGRITY]" in text
    assert f"target = {Path.cwd() / 't'}  [{Path.cwd() / 'contract.toml'}]" in text
    assert "CONTRACT_DEVISE is no setting and changes nothing; did you mean CONTRACT_DEVICE?" in text
    assert "[" not in run_line("config").out
    settings = {s["name"]: s for s in document(run_line("config", "--format", "json"))["settings"]}
    assert (settings["integrity"]["value"], settings["device"]["value"]) == ("digests", None)


def test_the_schemas(run_line: Run, kind: FakeKind) -> None:
    assert document(run_line("schema", "--waivers"))["title"] == "Waivers of a contract, version 1"
    assert document(run_line("schema", "--policy"))["title"] == "Organisation policy, version 1"


@pytest.mark.parametrize("rule", ["waivers.expired", "policy.tolerance-too-loose", "settings.bad-value", "guard.drafter", "api.not-kept"])
def test_the_rules_of_the_gate_have_pages(run_line: Run, kind: FakeKind, rule: str) -> None:
    assert run_line("explain", rule).code == 0
