"""vLLM's method ``eagle`` on an EAGLE-3 drafter: the target's normed last state is fed, fc is never called, some names are refused."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import BOUNDARIES, EngineReading, Outcome
from tests.readings.drafters import drafter, target

ENGINE = "vllm[v1]==0.32.0"


def reading(method: str, **keys: Any) -> EngineReading:
    flags = {"speculative_config": {"method": method, "num_speculative_tokens": 3}}
    (found,) = read(drafter(eagle_aux_hidden_state_layer_ids=[1, 4, 6], **keys), ENGINE, dict(target().config), flags)
    return found


@pytest.mark.parametrize("name", ["Eagle3LlamaForCausalLM", "Eagle3Qwen3ForCausalLM"])
def test_a_name_that_starts_with_eagle_runs_without_fc(name: str) -> None:
    found = reading("eagle", architectures=[name])
    assert found.outcome is Outcome.OK
    assert found.value(BOUNDARIES) == ["final_norm"]
    assert found.value("fc.applied") is False
    clean = reading("eagle3", architectures=[name])
    assert clean.value(BOUNDARIES) == [1, 4, 6]
    assert clean.value("fc.applied") is True


def test_a_name_that_ends_with_eagle3_is_refused() -> None:
    found = reading("eagle")
    assert found.outcome is Outcome.ERROR_AT_LOAD
    assert "EagleLlamaForCausalLMEagle3" in (found.error or "")
    assert reading("eagle3").outcome is Outcome.OK
