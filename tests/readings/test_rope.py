"""Rope as transformers completes it and the engines build it: the original length, the rows of a yarn table, types nobody has."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import EngineReading, Outcome
from tests.readings.drafters import drafter, target

SGLANG, VLLM = "sglang==0.5.23", "vllm[v1]==0.32.0"
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def reading(engine: str, **keys: Any) -> EngineReading:
    (found,) = read(drafter(**keys), engine, dict(target().config), {})
    return found


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_a_yarn_table_has_the_original_length_times_the_factor(engine: str) -> None:
    assert reading(engine, rope_scaling=YARN).value("rope.table_length") == 4096
    assert reading(engine, rope_scaling=YARN | {"factor": 2.0}).value("rope.table_length") == 2048
    assert reading(engine, rope_scaling={"rope_type": "yarn", "factor": 4.0}).value("rope.table_length") == 4 * 4096
    assert reading(engine).value("rope.table_length") == 4096


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_an_original_length_beside_the_rope_parameters_wins(engine: str) -> None:
    found = reading(engine, rope_scaling=YARN, original_max_position_embeddings=512)
    assert found.value("rope.table_length") == 2048
    assert found.value("rope.scaling")["original_max_position_embeddings"] == 512
    assert "original_max_position_embeddings" not in found.ignored_keys


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_llama3_without_an_original_length_has_max_position_embeddings(engine: str) -> None:
    kept = {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"}
    found = reading(engine, rope_scaling=kept)
    assert found.outcome is Outcome.OK
    assert found.value("rope.scaling")["original_max_position_embeddings"] == 4096


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
@pytest.mark.parametrize("key", ["factor", "low_freq_factor", "high_freq_factor"])
def test_what_a_type_needs_is_asked_for(engine: str, key: str) -> None:
    found = reading(engine, rope_scaling={k: v for k, v in LLAMA3.items() if k != key})
    assert found.outcome is Outcome.ERROR_AT_LOAD
    assert key in (found.error or "")


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_a_type_that_the_engine_does_not_have_is_refused(engine: str) -> None:
    found = reading(engine, rope_scaling={"rope_type": "spiral", "factor": 2.0})
    assert found.outcome is Outcome.ERROR_AT_LOAD
    assert "Unknown RoPE scaling type" in (found.error or "")


def test_vllm_takes_su_for_longrope_and_sglang_does_not_know_it() -> None:
    long = {"rope_type": "su", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16, "original_max_position_embeddings": 1024}
    assert reading(VLLM, rope_scaling=long).value("rope.type") == "longrope"
    assert reading(SGLANG, rope_scaling=long).outcome is Outcome.ERROR_AT_LOAD


def test_vllm_refuses_two_names_of_the_type_that_differ() -> None:
    assert reading(VLLM, rope_scaling=YARN | {"type": "linear"}).outcome is Outcome.ERROR_AT_LOAD
    assert reading(VLLM, rope_scaling=YARN | {"type": "yarn"}).outcome is Outcome.OK
