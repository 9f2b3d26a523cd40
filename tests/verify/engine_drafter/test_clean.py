"""An engine that does everything right is left alone, in every mode, over more than a hundred accepted drafts."""

from __future__ import annotations

import pytest
import torch

from contract.findings import ExitCode
from verify.engine_drafter.conftest import Run
from verify.engine_drafter.simulated_engine import Engine

MODES = {
    "vllm": Engine(),
    "sglang": Engine(style="sglang"),
    "chunked": Engine(chunk=10),
    "tree": Engine(style="sglang", topk=4, drafts=7),
    "bfloat16": Engine(dtype=torch.bfloat16),
    "float16": Engine(style="sglang", dtype=torch.float16),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_clean_engine_is_kept(run: Run, mode: str) -> None:
    judged = run(MODES[mode], 2)
    assert judged.exit_code is ExitCode.KEPT, judged.text
    assert judged.measurement["accepted"] > 100
    assert {c.rule.removeprefix("engine.") for c in judged.checks} == {
        *("forwards-counted", "rows-accounted", "input-ids", "positions", "fc-input", "fc-output", "hidden-input", "feedback"),
        *("drafter-forward", "logits", "proposals", "verification"),
    }
    assert "first" not in judged.measurement


def test_every_row_is_counted(run: Run) -> None:
    judged = run(Engine(chunk=10), 1)
    rows = judged.measurement["rows"]
    assert rows["draft after a chunk of the prompt"] == 2 * 2  # two chunks are not the last, two draft steps follow each
    assert rows["draft never verified"] == 2
    assert rows["committed"] == 176
    total = sum(c.actual for c in judged.checks if c.rule == "engine.rows-accounted")
    assert sum(rows.values()) == total


def test_bfloat16_is_bounded_by_what_rounding_costs(run: Run) -> None:
    """The floor is measured on the same inputs; float32's bound would find the rounding, and the bound is far below a flipped switch."""
    judged = run(Engine(dtype=torch.bfloat16, tokens=64))
    state = judged.measurement["tensors"]["state_out"]
    assert 1e-4 < state["floor"]["median"] < state["bound"]["median"] <= 0.05
    assert state["worst"] <= state["bound"]["worst"] <= 0.1
