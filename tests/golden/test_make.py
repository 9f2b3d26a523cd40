"""Golden rows made by this tool: they hold what the format says, pass under their contract, and miss when it changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import tiny
from safetensors.torch import load_file
from verify.scenario import Scenario, build, dump, write_target

from contract.errors import UserError
from contract.findings import Status
from contract.reporting import Report
from eagle3_contract.golden.make import FEWEST_TOKENS, MOST_TOKENS, STEPS, make_golden, tokens_for
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.wiring import Owner
from eagle3_contract.verify.golden import FC_OUT, read_golden


@pytest.fixture(scope="module")
def target_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target")


@pytest.fixture
def scenario(tmp_path: Path, target_dir: Path) -> Scenario:
    return build(tmp_path / "drafter", target_dir)


def make(scenario: Scenario, **more: Any) -> Any:
    made = make_golden(load_contract(scenario.spec), None, scenario.target_dir, scenario.folder / "golden.safetensors", **more)
    scenario.rewrite(lambda c: c.update(golden={"file": "golden.safetensors", "produced_by": "tool"}))
    return made


def statuses(report: Report, rule: str) -> list[Status]:
    return [c.status for c in report.checks if c.rule == rule]


def test_rows_are_complete_and_kept_without_samples_and_target(scenario: Scenario) -> None:
    made = make(scenario)
    rows = read_golden(scenario.folder, "golden.safetensors")
    assert (made.produced_by, made.tokens, made.steps) == ("tool", 21, 3)
    assert rows.fc_out_RH is not None
    assert sorted(rows.state_steps) == [0, 1, 2]
    assert rows.embedding is not None
    assert set(rows.embedding) == set(rows.input_ids_T.tolist())
    scenario.rewrite(lambda c: c["training"]["samples"].update(path=None, count=0, manifest={}))
    shutil.rmtree(scenario.samples)
    report = scenario.verify(target=False)
    assert statuses(report, "golden.logits") == [Status.PASSED] * STEPS, dump(report)
    assert statuses(report, "golden.states") == [Status.PASSED] * (STEPS + 1), dump(report)
    assert statuses(report, "golden.produced-by") == [Status.UNKNOWN]


def test_a_later_change_of_the_wiring_is_seen_where_it_acts(scenario: Scenario) -> None:
    make(scenario)
    scenario.rewrite(lambda c: c["wiring"].update(feedback="post_norm"))
    report = scenario.verify()
    by_key = {
        (c.rule, c.where.step, c.message.split()[2]): c.status
        for c in report.checks
        if c.rule.startswith("golden.") and c.where and c.where.step is not None
    }
    assert by_key["golden.states", 0, FC_OUT] is Status.PASSED
    assert by_key["golden.states", 0, "state_step0"] is Status.FAILED
    assert by_key["golden.logits", 0, "logits"] is Status.PASSED
    assert by_key["golden.logits", 1, "logits"] is Status.FAILED


def test_swapped_states_show_behind_fc(scenario: Scenario) -> None:
    make(scenario)
    path = scenario.folder / "golden.safetensors"
    tensors = load_file(path)
    width = tensors["hidden_states"].shape[1] // 3
    tensors["hidden_states"] = torch.cat(
        [tensors["hidden_states"][:, width : 2 * width], tensors["hidden_states"][:, :width], tensors["hidden_states"][:, 2 * width :]],
        dim=1,
    )
    from safetensors.torch import save_file

    save_file(tensors, path, metadata={"format": "eagle3-contract-golden", "format_version": "1"})
    assert statuses(scenario.verify(), "golden.states")[0] is Status.FAILED


def test_own_argmax_rollouts_bring_the_rows_of_their_proposals(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"].update(rollout="own_argmax"))
    make(scenario)
    rows = read_golden(scenario.folder, "golden.safetensors")
    assert rows.embedding is not None
    assert set(rows.embedding) > set(rows.input_ids_T.tolist())
    report = scenario.verify(target=False)
    assert statuses(report, "golden.logits") == [Status.PASSED] * STEPS, dump(report)


def test_a_drafter_with_the_targets_head_needs_the_target(tmp_path: Path, target_dir: Path) -> None:
    scenario = build(tmp_path / "drafter", target_dir, wiring=tiny(lm_head=Owner.TARGET, draft_vocab_size=96))
    make(scenario)
    with_target, without = scenario.verify(), scenario.verify(target=False)
    assert statuses(with_target, "golden.logits") == [Status.PASSED] * STEPS, dump(with_target)
    assert statuses(without, "golden.logits") == [Status.UNKNOWN]


def test_a_target_that_is_needed_and_not_given_is_an_error(scenario: Scenario) -> None:
    with pytest.raises(UserError) as caught:
        make_golden(load_contract(scenario.spec), None, None, scenario.folder / "golden.safetensors")
    assert caught.value.rule == "drafter.target-needed"
    assert not (scenario.folder / "golden.safetensors").exists()


def test_no_samples(scenario: Scenario) -> None:
    scenario.rewrite(lambda c: c["training"]["samples"].update(path=None))
    with pytest.raises(UserError) as caught:
        make(scenario)
    assert caught.value.rule == "golden.no-sample"


def test_size_is_bounded() -> None:
    assert tokens_for(tiny()) == MOST_TOKENS
    kimi = tiny(draft_vocab_size=32000, hidden_size=7168, target_hidden_size=7168)
    assert FEWEST_TOKENS < tokens_for(kimi) < MOST_TOKENS
    assert tokens_for(tiny(draft_vocab_size=10**7)) == FEWEST_TOKENS
