"""A trainer's stamp: its declarations are statements, its golden rows are the contract's, and measurements contradict it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from factory import tiny
from torch import Tensor

from contract.findings import ExitCode
from contract.requests import VerifyRequest
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.engines.target import Target
from eagle3_contract.model.wiring import Feedback, Owner, Wiring
from eagle3_contract.stamp.contract_stamp import stamp
from eagle3_contract.verify.run import verify
from tests.init.scene import drafter, neutral, run

DECLARED: dict[str, Any] = {
    "training.trainer": "mine", "hidden_states.boundaries": [2, 4, 5], "target.layers": 8, "training.metrics.accuracy": [0.5],
}  # fmt: skip


def stamped(folder: Path, wiring: Wiring, **declared: Any) -> Path:
    """A drafter with the stamp of a trainer that computes ``wiring``."""
    place = drafter(folder, wiring=wiring, ids=(1, 3, 4))
    generator = torch.Generator().manual_seed(2)
    ids_T, fed_TC = torch.randint(0, 96, (10,), generator=generator), torch.randn(10, 96, generator=generator)

    def forward(ids: Tensor, fed: Tensor) -> list[Tensor]:
        from contract.files.checkpoint import Checkpoint

        own = Drafter(wiring, CheckpointSource(Checkpoint.open(place)))
        return list(teacher_forced(own, ids, fed).logits_steps)

    stamp(place, forward=forward, input_ids=ids_T, hidden_states=fed_TC, declare=DECLARED | declared)
    return place


def test_a_stamp_answers_what_an_export_leaves_open(tmp_path: Path) -> None:
    place = stamped(tmp_path / "d", tiny(embedding=Owner.OWN))
    ran = run(place, place / "contract.yaml")
    assert ran.report.exit_code is ExitCode.KEPT, ran.messages()
    assert ran.value("hidden_states.boundaries") == [2, 4, 5]
    assert ran.fact("hidden_states.boundaries").evidence == "declared"
    assert ran.value("training.metrics.accuracy") == [0.5]
    golden = ran.contract.golden
    assert golden is not None
    assert (golden.file, golden.produced_by) == ("golden/golden.safetensors", "trainer")
    report = verify(VerifyRequest(spec=str(ran.path)))
    assert {"golden.logits", "golden.produced-by"} <= {c.rule for c in report.checks if c.status == "passed"}


def test_a_contract_written_elsewhere_is_for_a_place_beside_the_drafter(tmp_path: Path) -> None:
    place = stamped(tmp_path / "d", tiny(embedding=Owner.OWN))
    (tmp_path / "contracts").mkdir()
    ran = run(place, tmp_path / "contracts" / "contract.yaml")
    assert ran.report.exit_code is ExitCode.KEPT, ran.messages()
    assert ran.contract.drafter.path == "."
    assert any(c.rule == "init.written-elsewhere" for c in ran.report.checks)
    ran.path.rename(place / "contract.yaml")
    assert verify(VerifyRequest(spec=str(place / "contract.yaml"))).exit_code is ExitCode.KEPT


def test_a_wiring_that_the_trainers_own_rows_refute_fails(tmp_path: Path) -> None:
    """The trainer feeds the normed state back and its stamp does not say so: the rows do."""
    place = stamped(tmp_path / "d", tiny(embedding=Owner.OWN, feedback=Feedback.POST_NORM))
    ran = run(place, place / "contract.yaml")
    assert ran.value("wiring.feedback") == "pre_norm"
    report = verify(VerifyRequest(spec=str(ran.path)))
    assert "golden.logits" in {c.rule for c in report.checks if c.status == "failed"}


def test_a_dump_contradicts_a_stamp(tmp_path: Path, target: Target, target_dir: Path) -> None:
    place = stamped(tmp_path / "d", tiny(embedding=Owner.OWN))
    samples = neutral(tmp_path / "s", target, (3, 5, 6), named=False)
    ran = run(place, samples=str(samples), target=str(target_dir))
    (check,) = [c for c in ran.failed("init.contradiction") if c.message.startswith("hidden_states.boundaries: declared")]
    assert (check.expected, check.actual) == ([2, 4, 5], [3, 5, 6])


def test_an_answer_of_the_user_comes_before_the_stamp(tmp_path: Path) -> None:
    ran = run(stamped(tmp_path / "d", tiny(embedding=Owner.OWN)), settings={"hidden_states.boundaries": "[1, 3, 4]"})
    assert ran.value("hidden_states.boundaries") == [1, 3, 4]
