"""Golden rows written by an independent forward (the oracle of tests/drafter): kept as they are, missed with any switch flipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from drafter.oracle import Oracle
from factory import write_contract
from safetensors.torch import load_file
from torch import Tensor

from contract.findings import ExitCode, Status
from contract.reporting import Report
from eagle3_contract.drafter.names import canonical_name
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.verify.golden import FORMAT, FORMAT_VERSION, write_golden
from verify.scenario import Scenario, dump, failed, token_rows

STEPS = 3
RECIPE = (0, 3, 5)


def oracle_logits(scenario: Scenario) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """Token ids, states, logits per step, and the target's embedding, by the oracle's slot-by-slot arithmetic in float64."""
    wiring = resolve(load_contract(scenario.spec).contract).wiring
    stored = {str(canonical_name(n)): t for n, t in load_file(scenario.folder / "model.safetensors").items()}
    embedding = load_file(scenario.target_dir / "model.safetensors")["model.embed_tokens.weight"]
    ids_T = token_rows()[0]
    states = scenario.target.forward(ids_T).states
    hidden_TC = torch.cat([states[s] for s in RECIPE], dim=-1)
    run = Oracle(wiring, stored, {"model.embed_tokens.weight": embedding}).run(ids_T, hidden_TC, STEPS)
    logits = []
    for step in range(STEPS):
        out = torch.full((len(ids_T) - 1, wiring.draft_vocab_size), float("nan"))
        for (s, row), values in run.logits.items():
            if s == step:
                out[row] = values.float()
        logits.append(out)
    return ids_T, hidden_TC, logits, embedding


@pytest.fixture
def golden(scenario: Scenario) -> Scenario:
    ids_T, hidden_TC, logits, embedding = oracle_logits(scenario)
    used_L = ids_T.unique()
    write_golden(
        scenario.folder / "golden.safetensors", input_ids_T=ids_T, hidden_states_TC=hidden_TC, logits_steps=logits,
        embedding_ids_L=used_L, embedding_rows_LH=embedding[used_L],
    )  # fmt: skip
    scenario.rewrite(lambda c: c.update(golden={"file": "golden.safetensors", "produced_by": "trainer"}))
    return scenario


def golden_checks(report: Report) -> dict[int, Status]:
    return {c.where.step: c.status for c in report.checks if c.rule == "golden.logits" and c.where is not None and c.where.step is not None}


def test_independent_rows_are_kept_without_samples_or_target(golden: Scenario) -> None:
    golden.rewrite(lambda c: c["training"]["samples"].update(path=None, count=0, manifest={}))
    import shutil

    shutil.rmtree(golden.samples)
    report = golden.verify(target=False)
    assert golden_checks(report) == dict.fromkeys(range(STEPS), Status.PASSED), dump(report)
    assert "golden.logits" not in failed(report)


FLIPS: dict[str, tuple[str, Any, int]] = {
    "norm_before_residual": ("norm_before_residual", True, 0),
    "double_norm": ("double_norm", True, 0),
    "hidden_norm": ("hidden_norm", False, 0),
    "final_norm": ("final_norm", False, 0),
    "feedback": ("feedback", "post_norm", 1),
    "concat_order": ("concat_order", "hidden_first", 0),
    "theta": ("rope.theta", 500000.0, 0),
    "rope linear": ("rope.type", "linear", 0),
    "interleaved": ("rope.interleaved", True, 0),
    "rotary_dim": ("rope.rotary_dim", 4, 0),
    "eps": ("rms_norm_eps", 0.5, 0),
    "act": ("hidden_act", "gelu", 0),
    "attention_scale": ("attention_scale", 1.0, 0),
    "logit_scale": ("logit_scale", 0.5, 0),
    "window": ("window", 3, 0),
}


@pytest.mark.parametrize("flip", FLIPS)
def test_a_flipped_switch_misses_the_golden_rows(golden: Scenario, flip: str) -> None:
    path, value, first = FLIPS[flip]

    def change(c: dict[str, Any]) -> None:
        at = c["wiring"]
        *parents, leaf = path.split(".")
        for parent in parents:
            at = at[parent]
        at[leaf] = value
        if flip == "rope linear":
            c["wiring"]["rope"]["scaling"] = {"factor": 4.0}
        if flip == "final_norm":
            c["tensors"]["norm.weight"]["used"] = "not_used"

    golden.rewrite(change)
    report = golden.verify()
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    steps = golden_checks(report)
    assert [steps[s] for s in range(first)] == [Status.PASSED] * first, dump(report)
    assert steps[first] is Status.FAILED, dump(report)


@pytest.mark.parametrize(("field", "value", "first"), [("step_positions", "constant", 1), ("token_shift", 0, 0)])
def test_flipped_alignment_misses_the_golden_rows(golden: Scenario, field: str, value: Any, first: int) -> None:
    golden.rewrite(lambda c: c["alignment"].update({field: value}))
    steps = golden_checks(golden.verify())
    assert [steps[s] for s in range(first)] == [Status.PASSED] * first
    assert steps[first] is Status.FAILED


def test_tool_made_rows_are_said_to_be_no_proof(golden: Scenario) -> None:
    golden.rewrite(lambda c: c["golden"].update(produced_by="tool"))
    report = golden.verify()
    (note,) = [c for c in report.checks if c.rule == "golden.produced-by"]
    assert (note.status, note.required) == (Status.UNKNOWN, False)


@pytest.mark.parametrize("name", ["../golden.safetensors", "/etc/passwd", "absent.safetensors"])
def test_golden_file_stays_in_the_contracts_folder(golden: Scenario, name: str) -> None:
    golden.rewrite(lambda c: c["golden"].update(file=name))
    report = golden.verify()
    assert report.exit_code is ExitCode.UNUSABLE, dump(report)


def test_malformed_golden_rows_are_rejected(golden: Scenario) -> None:
    from safetensors.torch import save_file

    path = golden.folder / "golden.safetensors"
    tensors = load_file(path)
    for spoilt in (
        {k: v for k, v in tensors.items() if k != "logits_step1"},
        {k: v for k, v in tensors.items() if k != "hidden_states"},
        {**tensors, "surprise": torch.zeros(1)},
        {**tensors, "input_ids": tensors["input_ids"].int()},
        {k: v for k, v in tensors.items() if k != "embedding_rows"},
    ):
        save_file(spoilt, path, metadata={"format": FORMAT, "format_version": FORMAT_VERSION})
        report = golden.verify()
        assert report.exit_code is ExitCode.UNUSABLE
        assert "golden.malformed" in {c.rule for c in report.checks if c.rejected}


def test_nan_never_equals_anything(golden: Scenario) -> None:
    from safetensors.torch import save_file

    path = golden.folder / "golden.safetensors"
    tensors = load_file(path)
    tensors["logits_step0"][7] = float("nan")
    save_file(tensors, path, metadata={"format": FORMAT, "format_version": FORMAT_VERSION})
    assert golden_checks(golden.verify())[0] is Status.FAILED


def test_write_contract_round_trip(golden: Scenario, tmp_path: Path) -> None:
    """The scenario's contract is a valid one in its own right."""
    assert load_contract(write_contract(tmp_path / "c.yaml", golden.contract)).contract.golden is not None


def test_rows_of_a_text_too_short_for_every_step_are_open(golden: Scenario) -> None:
    """The third step of three tokens has no token to be fed."""
    ids_T, hidden_TC, logits, embedding = oracle_logits(golden)
    golden.rewrite(lambda c: c["golden"].update(file="short.safetensors"))
    few = [z[:2].clone() for z in logits]
    few[1][1:], few[2][:] = float("nan"), float("nan")
    write_golden(
        golden.folder / "short.safetensors", input_ids_T=ids_T[:3], hidden_states_TC=hidden_TC[:3], logits_steps=few,
        embedding_ids_L=ids_T.unique(), embedding_rows_LH=embedding[ids_T.unique()],
    )  # fmt: skip
    (golden.folder / "golden.safetensors").unlink()
    report = golden.verify(target=False)
    assert golden_checks(report) == {0: Status.PASSED, 1: Status.PASSED, 2: Status.UNKNOWN}, dump(report)
