"""The data flow says which edge is broken: the slot that carries another state, or the wiring behind it, never both for one cause."""

from __future__ import annotations

from pathlib import Path

import torch
from factory import pair

from contract.findings import Check, Where
from contract.report.flow import Flow
from contract.reporting import Report
from eagle3_contract.model.load import load_contract
from eagle3_contract.verify import rules, state_rules
from eagle3_contract.verify.flow import verified_flow
from eagle3_contract.verify.strips import SAMPLES, TOKENS, Strips


def broken(folder: Path, *checks: Check) -> list[tuple[str, str]]:
    pair().write(folder)
    made = verified_flow(load_contract(folder / "contract.yaml").contract, checks).as_json()
    flow = Flow.of({"flow": made})
    assert flow is not None
    return [(e.source, e.target) for e in flow.broken(Report(command="verify", subject={}, checks=list(checks)))]


SLOT = state_rules.SLOT.failed("slot 1 carries boundary 6", where=Where(slot=1))
LOGITS = rules.PATH_LOGITS.failed("logits differ")
DROP = rules.DROP.failed("accuracy falls")


def test_a_slot_breaks_its_own_edge(tmp_path: Path) -> None:
    assert broken(tmp_path, SLOT, state_rules.RECIPE.failed("other states"), LOGITS, DROP) == [("slot1", "fc")]


def test_without_a_slot_all_states_are_meant(tmp_path: Path) -> None:
    assert broken(tmp_path, state_rules.RECIPE.failed("other states")) == [("slot0", "fc"), ("slot1", "fc"), ("slot2", "fc")]


def test_right_states_and_other_logits_are_wiring(tmp_path: Path) -> None:
    assert broken(tmp_path, LOGITS, DROP) == [("fc", "layer")]


def test_kept_breaks_nothing(tmp_path: Path) -> None:
    assert broken(tmp_path, rules.PATH_LOGITS.passed("alike")) == []


def test_strips_hold_the_first_draft_against_the_token_that_came() -> None:
    strips = Strips()
    logits = torch.eye(4)[[1, 2, 3, 0]]
    logits[2] = float("nan")
    strips.add("a", "training", logits, torch.tensor([0, 10, 20, 30]), torch.tensor([5, 5, 10, 10, 30]))
    assert strips.as_measurement() == {"a": {"training": "+-."}}


def test_strips_end_where_the_page_does() -> None:
    strips = Strips()
    for n in range(SAMPLES + 1):
        strips.add(str(n), "training", torch.zeros(2 * TOKENS, 2), torch.tensor([0, 1]), torch.zeros(2 * TOKENS + 1, dtype=torch.int64))
    assert {name: len(paths["training"]) for name, paths in strips.as_measurement().items()} == {str(n): TOKENS for n in range(SAMPLES)}
