"""``contract draft`` on files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from contract.errors import InputRejected, UsageError, UserError
from eagle3_contract.drafter.draft_files import draft
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Owner

from .build import SMALL, inputs_for, small, target_tensors, tensors_for
from .compare import run

FULL = {
    "position_ids": torch.arange(11) + 3,
    "document_ids": torch.tensor([0] * 5 + [1] * 4 + [-1] * 2),
}


def _inputs(**changes: Tensor | None) -> dict[str, Tensor]:
    inputs = inputs_for(SMALL)
    made: dict[str, Tensor | None] = {"input_ids": inputs.ids, "hidden_states": inputs.states, **changes}
    return {name: value.contiguous() for name, value in made.items() if value is not None}


def _draft(folder: Path, tensors: dict[str, Tensor], steps: int = 3, **options: Any) -> dict[str, Tensor]:
    save_file(tensors, folder / "in.safetensors")
    weights = options.pop("weights", tensors_for(SMALL))
    draft(SMALL, MemorySource(weights), None, folder / "in.safetensors", steps, folder / "out.safetensors", **options)
    return load_file(folder / "out.safetensors")


@pytest.mark.parametrize("extra", [{}, {"position_ids": FULL["position_ids"]}, FULL], ids=["plain", "positions", "documents"])
def test_logits_of_every_step_are_written(tmp_path: Path, extra: dict[str, Tensor]) -> None:
    out = _draft(tmp_path, _inputs(**extra), steps=3)
    expected = run(SMALL, inputs_for(SMALL), steps=3, position_ids_T=extra.get("position_ids"), document_ids_T=extra.get("document_ids"))
    assert sorted(out) == ["logits_step0", "logits_step1", "logits_step2"]
    for step, logits in enumerate(expected.logits_steps):
        got = out[f"logits_step{step}"]
        assert got.dtype is torch.float32
        assert got.shape == (10, 24)
        assert torch.equal(got.isnan(), logits.isnan())
        assert torch.equal(got.nan_to_num(), logits.nan_to_num())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_states_may_be_stored_narrow(tmp_path: Path, dtype: torch.dtype) -> None:
    states = inputs_for(SMALL).states.to(dtype)
    out = _draft(tmp_path, _inputs(hidden_states=states), steps=1)
    again = tmp_path / "again"
    again.mkdir()
    assert torch.equal(out["logits_step0"], _draft(again, _inputs(hidden_states=states.float()), steps=1)["logits_step0"])


def test_padding_may_hold_anything(tmp_path: Path) -> None:
    inputs = inputs_for(SMALL)
    ids, states = inputs.ids.clone(), inputs.states.clone()
    ids[-2:], states[-2:] = -100, float("nan")
    plain = _draft(tmp_path, _inputs(**FULL), steps=2)
    (tmp_path / "padded").mkdir()
    padded = _draft(tmp_path / "padded", _inputs(input_ids=ids, hidden_states=states, **FULL), steps=2)
    assert all(torch.equal(plain[name].nan_to_num(), padded[name].nan_to_num()) for name in plain)


@pytest.mark.parametrize(("extra", "last"), [({}, [10]), (FULL, [4, 8])], ids=["plain", "documents"])
def test_state_of_a_documents_last_token_is_fed_to_nobody(tmp_path: Path, extra: dict[str, Tensor], last: list[int]) -> None:
    states = inputs_for(SMALL).states.clone()
    states[last] = float("nan")
    plain = _draft(tmp_path, _inputs(**extra), steps=2)
    (tmp_path / "marked").mkdir()
    marked = _draft(tmp_path / "marked", _inputs(hidden_states=states, **extra), steps=2)
    assert all(torch.equal(plain[name].nan_to_num(), marked[name].nan_to_num()) for name in plain)
    states[last[0] - 1] = float("nan")
    with pytest.raises(InputRejected, match=f"not finite at token {last[0] - 1}"):
        _draft(tmp_path / "marked", _inputs(hidden_states=states, **extra), steps=2)


def test_the_target_gives_its_embedding(tmp_path: Path) -> None:
    save_file(_inputs(), tmp_path / "in.safetensors")
    wiring = small(embedding=Owner.TARGET)
    target = MemorySource(target_tensors(wiring))
    draft(wiring, MemorySource(tensors_for(wiring)), target, tmp_path / "in.safetensors", 1, tmp_path / "out.safetensors", "cpu")
    assert torch.equal(load_file(tmp_path / "out.safetensors")["logits_step0"], run(wiring, inputs_for(wiring), steps=1).logits_steps[0])


STATES = inputs_for(SMALL).states
IDS = inputs_for(SMALL).ids


@pytest.mark.parametrize(
    ("tensors", "rule", "message"),
    [
        (_inputs(input_ids=None), "input-names", "lacks input_ids"),
        (_inputs(hidden_states=None), "input-names", "lacks hidden_states"),
        (_inputs(position_id=IDS), "input-names", "holds 'position_id'"),
        (_inputs(input_ids=IDS.int()), "input-shape", "I32"),
        (_inputs(input_ids=IDS[:, None]), "input-shape", r"input_ids is I64 \[11, 1\]"),
        (_inputs(hidden_states=STATES[:-1]), "input-shape", r"hidden_states is F32 \[10, 48\]"),
        (_inputs(hidden_states=STATES[:, :-1]), "input-shape", r"hidden_states is F32 \[11, 47\]"),
        (_inputs(hidden_states=STATES.double()), "input-shape", "F64"),
        (_inputs(hidden_states=STATES[None]), "input-shape", r"\[1, 11, 48\]"),
        (_inputs(position_ids=torch.arange(10)), "input-shape", "position_ids"),
        (_inputs(document_ids=torch.zeros(11)), "input-shape", "document_ids is F32"),
        (_inputs(input_ids=IDS[:1], hidden_states=STATES[:1]), "input-shape", "holds 1 tokens"),
        (_inputs(input_ids=IDS[:0], hidden_states=STATES[:0]), "input-shape", "holds 0 tokens"),
        (_inputs(position_ids=torch.arange(11) - 1), "position-range", "from -1 to 9"),
        (_inputs(position_ids=torch.arange(11) + 2**24), "position-range", "16777216"),
        (_inputs(document_ids=torch.tensor([0, 1] * 5 + [2])), "document-ids", "comes back"),
        (_inputs(hidden_states=STATES.masked_fill(STATES > 2.5, float("inf"))), "not-finite", "not finite at token"),
        (_inputs(input_ids=torch.cat([torch.tensor([40]), IDS[1:]])), "token-out-of-range", "token id 40"),
        (_inputs(input_ids=IDS.index_fill(0, torch.tensor([4]), -1)), "token-out-of-range", "token id -1"),
    ],
)
def test_bad_inputs_are_refused_by_name(tmp_path: Path, tensors: dict[str, Tensor], rule: str, message: str) -> None:
    with pytest.raises(InputRejected, match=message) as caught:
        _draft(tmp_path, tensors)
    assert caught.value.rule == f"drafter.{rule}"
    assert caught.value.fix
    assert [p.name for p in tmp_path.iterdir()] == ["in.safetensors"]


@pytest.mark.parametrize("steps", [0, -1, 65])
def test_steps_out_of_range_are_refused(tmp_path: Path, steps: int) -> None:
    with pytest.raises(UsageError, match="steps cannot be drafted"):
        _draft(tmp_path, _inputs(), steps=steps)


def test_logits_that_are_not_finite_are_an_error_and_never_written(tmp_path: Path) -> None:
    weights = tensors_for(SMALL)
    weights["lm_head.weight"][3, 5] = float("nan")
    with pytest.raises(InputRejected, match="step 0 are not finite at row 0"):
        _draft(tmp_path, _inputs(), weights=weights)
    assert [p.name for p in tmp_path.iterdir()] == ["in.safetensors"]


def test_an_older_output_survives_a_failure(tmp_path: Path) -> None:
    before = _draft(tmp_path, _inputs(), steps=1)
    weights = tensors_for(SMALL)
    weights["norm.weight"][0] = float("inf")
    with pytest.raises(InputRejected):
        _draft(tmp_path, _inputs(), weights=weights)
    assert torch.equal(load_file(tmp_path / "out.safetensors")["logits_step0"], before["logits_step0"])


def test_files_that_are_no_inputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.safetensors").write_bytes(b"not a safetensors file at all")
    for path in (tmp_path, tmp_path / "text.safetensors", tmp_path / "nothing.safetensors"):
        with pytest.raises(UserError):
            draft(SMALL, MemorySource(tensors_for(SMALL)), None, path, 1, tmp_path / "out.safetensors")
    with pytest.raises(InputRejected, match="is a folder"):
        draft(SMALL, MemorySource(tensors_for(SMALL)), None, tmp_path, 1, tmp_path / "out.safetensors")
