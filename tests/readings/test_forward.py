"""A reading as recipe and wiring."""

from __future__ import annotations

import pytest

from eagle3_contract.model.wiring import Feedback, LaterLayerNorm, NormBeforeFc, Owner, Reading
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from tests.readings.drafters import drafter, target


def wired(engine: str, *, states: int = 3, tensors: dict[str, object] | None = None, **keys: object) -> Reading | CannotRun:
    (reading,) = read(drafter(states, tensors=tensors, **keys), engine, target())
    return to_reading(reading)


def test_the_engines_own_values_reach_the_wiring() -> None:
    found = wired(
        "vllm[v1]==0.32.0", eagle_aux_hidden_state_layer_ids=[0, 3, 31], norm_output=True, norm_before_residual=True, num_hidden_layers=1
    )
    assert isinstance(found, Reading)
    assert found.recipe == (0, 3, 31)
    assert found.wiring.feedback is Feedback.POST_NORM
    assert found.wiring.norm_before_residual
    assert found.wiring.later_layer_norm is LaterLayerNorm.INPUT_LAYERNORM
    assert (found.wiring.embedding, found.wiring.lm_head) == (Owner.TARGET, Owner.OWN)


def test_sglang_never_norms_before_the_residual_and_skips_fc_on_equal_width() -> None:
    found = wired("sglang==0.5.23", states=1, norm_before_residual=True, eagle_config={"eagle_aux_hidden_state_layer_ids": [4]})
    assert isinstance(found, Reading)
    assert (found.wiring.norm_before_residual, found.wiring.fc_applied, found.wiring.states) == (False, False, 1)


def test_norms_before_fc() -> None:
    norms = {f"fc_norm.{k}.weight": ("BF16", [64]) for k in range(3)} | {"input_norm.weight": ("BF16", [192])}
    found = wired("sglang==0.5.23", fc_norm=True, norm_before_fc=True, tensors=norms)
    assert isinstance(found, Reading)
    assert found.wiring.norms_before_fc == (NormBeforeFc.INPUT_NORM, NormBeforeFc.FC_NORM)


def test_dynamic_rope_is_a_static_table_in_an_engine() -> None:
    found = wired("sglang==0.5.23", rope_scaling={"type": "dynamic", "factor": 4.0})
    assert isinstance(found, Reading)
    assert (found.wiring.rope.type, found.wiring.rope.scaling) == ("dynamic", {"factor": 4.0, "static": True})


@pytest.mark.parametrize(
    ("keys", "tensors", "said"),
    [
        ({"architectures": ["Nobody"]}, {}, "does not get that far"),
        ({}, {"fc.weight": ...}, "fc.weight (missing_random)"),
        ({"num_attention_heads": 2}, {}, "sliced"),
    ],
)
def test_what_cannot_be_run_says_why(keys: dict[str, object], tensors: dict[str, object], said: str) -> None:
    found = wired("sglang==0.5.23", tensors=tensors, **keys)
    assert isinstance(found, CannotRun)
    assert said in found.reason


def test_without_the_target_nothing_is_guessed() -> None:
    (reading,) = read(drafter(), "sglang==0.5.23")
    found = to_reading(reading)
    assert isinstance(found, CannotRun)
    assert "hidden_states.boundaries" in found.reason
