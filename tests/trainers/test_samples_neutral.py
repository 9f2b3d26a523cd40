"""Our own container of a sample: what is written is read, and each fault of it has its rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from contract.errors import UsageError, UserError
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.trainers.sample_formats.neutral import write_sample
from eagle3_contract.trainers.samples import find_samples, load_sample
from tests.trainers.views import DATA

SAMPLES = DATA / "samples"
Record = dict[str, Any]


def _parts(tokens: int = 5, count: int = 2, width: int = 4, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(tokens * 100 + count)
    states = [torch.randn(tokens, width, generator=generator).to(dtype) for _ in range(count)]
    return {
        "input_ids_T": torch.arange(tokens),
        "states_THk": states,
        "loss_mask_T": torch.tensor([i % 2 for i in range(tokens)]),
        "last_TG": torch.randn(tokens, width, generator=generator).to(dtype),
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.booleans(),
    st.sampled_from([None, 12, "final_norm"]),
)
def test_what_is_written_is_read(tmp_path: Path, tokens: int, count: int, width: int, dtype: torch.dtype, named: bool, last: Any) -> None:
    parts = _parts(tokens, count, width, dtype)
    boundaries: Any = (*range(count - 1), "final_norm") if named else None
    write_sample(tmp_path / "s.safetensors", **parts, boundaries=boundaries, last=last, document_ids_T=torch.zeros(tokens).long())
    sample = load_sample(tmp_path / "s.safetensors", allow_pickle=False)
    assert isinstance(sample, TrainingSample)
    assert torch.equal(sample.input_ids_T, parts["input_ids_T"])
    assert all(torch.equal(a, b) for a, b in zip(sample.states_THk, parts["states_THk"], strict=True))
    assert sample.last_TG is not None
    assert torch.equal(sample.last_TG, parts["last_TG"])
    assert (sample.boundaries, sample.last) == (boundaries, last)
    assert sample.document_ids_T is not None


def test_a_neutral_sample_needs_no_more_than_tokens_and_states(tmp_path: Path) -> None:
    write_sample(tmp_path / "s.safetensors", input_ids_T=torch.arange(3), states_THk=[torch.ones(3, 2)])
    sample = load_sample(tmp_path / "s.safetensors", allow_pickle=False)
    assert (sample.loss_mask_T, sample.last_TG, sample.boundaries, sample.last, sample.document_ids_T) == (None,) * 5
    assert find_samples(tmp_path) == [tmp_path / "s.safetensors"]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"format_version": "2"}, "format-version"),
        ({"boundaries": "[0]"}, "boundaries"),
        ({"boundaries": "[0, -1]"}, "boundaries"),
        ({"boundaries": "[0, true]"}, "boundaries"),
        ({"last": "layer 12"}, "boundaries"),
        ({"last": "boundary twelve"}, "boundaries"),
        ({"dtype": "float16"}, "dtype"),
        ({"layers": "12"}, "unknown-key"),
    ],
)
def test_each_fault_of_the_metadata_has_its_rule(tmp_path: Path, change: dict[str, str], rule: str) -> None:
    good = {"format": "eagle3-contract-sample", "format_version": "1", "boundaries": "[0, 2]", "last": "boundary 12", "dtype": "float32"}
    tensors = {"input_ids": torch.arange(3), "states": torch.ones(3, 2, 4)}
    save_file(tensors, tmp_path / "good.safetensors", metadata=good)
    assert load_sample(tmp_path / "good.safetensors", allow_pickle=False).boundaries == (0, 2)
    save_file(tensors, tmp_path / "bad.safetensors", metadata={**good, **change})
    with pytest.raises(UserError) as refused:
        load_sample(tmp_path / "bad.safetensors", allow_pickle=False)
    assert refused.value.rule == f"samples.{rule}"


@pytest.mark.parametrize(
    ("tensors", "rule"),
    [
        ({"stats": torch.ones(1)}, "unknown-key"),
        ({"states": torch.ones(3, 4)}, "shape"),
        ({"states": torch.ones(4, 2, 4)}, "length"),
        ({"states": torch.full((3, 2, 4), torch.nan)}, "not-finite"),
        ({"last_hidden_state": torch.ones(3, 5)}, "shape"),
        ({"document_ids": torch.ones(3)}, "dtype"),
        ({"loss_mask": torch.ones(4, dtype=torch.uint8)}, "length"),
    ],
)
def test_each_fault_of_the_tensors_has_its_rule(tmp_path: Path, tensors: dict[str, torch.Tensor], rule: str) -> None:
    good = {"input_ids": torch.arange(3), "states": torch.ones(3, 2, 4)}
    metadata = {"format": "eagle3-contract-sample", "format_version": "1"}
    save_file({**good, **tensors}, tmp_path / "bad.safetensors", metadata=metadata)
    with pytest.raises(UserError) as refused:
        load_sample(tmp_path / "bad.safetensors", allow_pickle=False)
    assert refused.value.rule == f"samples.{rule}"
    save_file({"input_ids": torch.arange(3)}, tmp_path / "bad.safetensors", metadata=metadata)
    with pytest.raises(UserError, match="no tensor states"):
        load_sample(tmp_path / "bad.safetensors", allow_pickle=False)


@pytest.mark.parametrize(
    "change",
    [
        {"states_THk": []},
        {"states_THk": [torch.ones(5, 4), torch.ones(5, 3)]},
        {"states_THk": [torch.ones(4, 4)]},
        {"loss_mask_T": torch.full((5,), 3)},
        {"boundaries": (0,)},
        {"input_ids_T": torch.arange(0)},
        {"last_TG": torch.full((5, 4), torch.inf)},
    ],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        write_sample(tmp_path / "s.safetensors", **{**_parts(), **change})
    assert refused.value.rule == "samples.write"
    assert list(tmp_path.iterdir()) == []
