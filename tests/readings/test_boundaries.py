"""Which boundaries each engine feeds, by version, runner and target class; and the matrix taken from the engines' own functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import EngineReading, Outcome
from eagle3_contract.readings.rules import Origin
from tests.readings.drafters import drafter, target
from tests.readings.observed import DATA

FED = "hidden_states.boundaries"


def fed(engine: str, *, architecture: str = "LlamaForCausalLM", layers: int = 32, states: int = 3, **keys: Any) -> EngineReading:
    (reading,) = read(drafter(states, **keys), engine, target(architecture, layers))
    return reading


def nested(*ids: Any, **more: Any) -> dict[str, Any]:
    return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids), **more}}


@pytest.mark.parametrize(
    ("engine", "ids", "expected"),
    [
        ("sglang==0.5.12", [2, 30, 58], [3, 31, 59]),
        ("sglang==0.5.13", [2, 30, 58], [2, 30, 58]),
        ("sglang==0.5.12", None, [2, 30, 58]),
        ("sglang==0.5.13", None, [2, 30, 58]),
        ("sglang==0.5.13", [1, 29, 57], [2, 30, 58]),
        ("sglang==0.5.23", [0, 3, 31], [0, 3, 31]),
        ("sglang==0.5.23", [3, 1, 6], [1, 3, 6]),
    ],
)
def test_deepseek_targets_on_sglang(engine: str, ids: list[int] | None, expected: list[int]) -> None:
    keys = {} if ids is None else nested(*ids)
    reading = fed(engine, architecture="DeepseekV3ForCausalLM", layers=61, **keys)
    assert reading.value(FED) == expected
    assert reading.get(FED).origin is (Origin.DEFAULT if ids is None else Origin.KEY)


def test_runners_of_vllm_differ_on_nested_ids() -> None:
    readings = read(drafter(**nested(1, 17, 33)), "vllm==0.32.0", target(layers=36))
    assert [(r.runner, r.value(FED)) for r in readings] == [("v1", [1, 17, 33]), ("v2", [2, 18, 33])]
    assert readings[1].get(FED).origin is Origin.DEFAULT
    assert "eagle_config.eagle_aux_hidden_state_layer_ids" in readings[1].ignored_keys


@pytest.mark.parametrize(
    ("engine", "keys", "expected"),
    [
        ("vllm[v1]==0.11.0", {"eagle_aux_hidden_state_layer_ids": [1, 9, 20]}, [2, 16, 29]),
        ("vllm[v1]==0.11.1", {"eagle_aux_hidden_state_layer_ids": [1, 9, 20]}, [1, 9, 20]),
        ("vllm[v1]==0.21.0", nested(1, 9, 20), [2, 16, 29]),
        ("vllm[v1]==0.22.0", nested(1, 9, 20), [1, 9, 20]),
        ("vllm[v2]==0.32.0", {"eagle_config": {"layer_ids": [1, 9, 20]}}, [1, 9, 20]),
        ("vllm[v2]==0.26.0", {"eagle_config": {"layer_ids": [1, 9, 20]}}, [2, 16, 29]),
        ("vllm[v1]==0.32.0", {"eagle_aux_hidden_state_layer_ids": [0, 16, 32]}, [0, 16, 32]),
    ],
)
def test_vllm_by_version(engine: str, keys: dict[str, Any], expected: list[int]) -> None:
    assert fed(engine, **keys).value(FED) == expected


def test_last_boundary_of_vllm_before_the_mixin() -> None:
    reading = fed("vllm[v1]==0.17.0", eagle_aux_hidden_state_layer_ids=[2, 16, 32])
    assert (reading.value(FED), reading.outcome) == ([2, 16], Outcome.ERROR_AT_FIRST_REQUEST)


@pytest.mark.parametrize(
    ("version", "ids", "expected"),
    [("0.5.16", [1, 17, 33], [2, 18, 34]), ("0.5.17", [1, 17, 33], [2, 18, 34]), ("0.5.17", [0, 18, 36], [0, 18, 36])],
)
def test_gpt_oss_on_sglang(version: str, ids: list[int], expected: list[int]) -> None:
    reading = fed(f"sglang=={version}", architecture="GptOssForCausalLM", layers=36, **nested(*ids))
    assert (reading.value(FED), reading.outcome) == (expected, Outcome.OK)


def test_six_layers_without_ids_crash_at_the_first_request() -> None:
    for engine in ("sglang==0.5.23", "vllm[v1]==0.32.0"):
        reading = fed(engine, layers=6)
        assert (reading.value(FED), reading.outcome) == ([2, 3], Outcome.ERROR_AT_FIRST_REQUEST)


def test_ids_at_the_top_are_ignored_by_sglang_and_said_so() -> None:
    reading = fed("sglang==0.5.23", eagle_aux_hidden_state_layer_ids=[0, 3, 31])
    field = reading.get(FED)
    assert (field.value, field.origin, field.key) == ([2, 16, 29], Origin.DEFAULT, None)
    assert "eagle_config.eagle_aux_hidden_state_layer_ids" in field.looked_for
    assert "eagle_aux_hidden_state_layer_ids" in reading.ignored_keys


def test_descending_ids_are_fed_in_ascending_order() -> None:
    reading = fed("sglang==0.5.23", **nested(6, 2, -1))
    assert reading.value(FED) == [0, 3, 7]
    assert "ascending" in reading.get(FED).rule


def test_one_state_of_the_drafters_width_skips_fc_on_sglang_only() -> None:
    assert fed("sglang==0.5.23", states=1, **nested(4)).value("fc.applied") is False
    assert fed("vllm[v1]==0.32.0", states=1, **nested(4)).value("fc.applied") is True


def test_no_aux_feeds_the_normed_last_state() -> None:
    reading = fed("sglang==0.5.23", **nested(1, 3, 5, use_aux_hidden_state=False))
    assert (reading.value(FED), reading.value("fc.applied"), reading.outcome) == (["final_norm"], False, Outcome.OK)
    assert fed("sglang==0.5.7", **nested(1, 3, 5, use_aux_hidden_state=False)).value(FED) == [2, 4, 6]


def test_a_target_class_without_a_hook_in_that_version_fails_at_load() -> None:
    reading = fed("sglang==0.5.4", architecture="DeepseekV3ForCausalLM", layers=61)
    assert reading.outcome is Outcome.ERROR_AT_LOAD
    assert not reading.get(FED).known


def test_an_unknown_target_class_and_no_target_are_unknown_not_guessed() -> None:
    reading = fed("sglang==0.5.23", architecture="NobodyKnowsForCausalLM", **nested(1, 3, 5))
    assert (reading.get(FED).known, reading.value(FED)) == (False, None)
    (without,) = read(drafter(**nested(1, 3, 5)), "sglang==0.5.23")
    assert not without.get(FED).known
    assert without.outcome is Outcome.OK


KEYS = {
    "speculators 0.9.0 export, ids [2,4,5]": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5]},
    "SpecForge export, eagle_config ids [1,3,4]": nested(1, 3, 4),
    "ModelOpt export, eagle_config ids [1,3,4]": nested(1, 3, 4),
    "AngelSlim with aux_hidden_states_layer_ids [0,3,6]": {"aux_hidden_states_layer_ids": [0, 3, 6]},
    "Kimi/DSv3 61 layers, eagle_config ids [1,29,57] (SpecForge/ModelOpt/TorchSpec native)": nested(1, 29, 57),
    "Kimi 61 layers, TorchSpec --vllm fixup ids [2,30,58]": nested(2, 30, 58) | {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]},
    "gpt-oss-120b SpecForge ids [1,17,33], 36 layers": nested(1, 17, 33),
}
READERS = {
    "vLLM V1 runner": ("vllm[v1]==0.32.0", "LlamaForCausalLM"),
    "vLLM V2 runner": ("vllm[v2]==0.32.0", "LlamaForCausalLM"),
    "SGLang llama/qwen": ("sglang==0.5.23", "Qwen3ForCausalLM"),
    "SGLang deepseek_v2": ("sglang==0.5.23", "DeepseekV3ForCausalLM"),
}
MATRIX = json.loads((DATA / "layer_id_matrix.json").read_text())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("row", MATRIX, ids=lambda r: str(r["config"])[:40])
def test_the_matrix_taken_from_the_engines_own_functions(row: dict[str, Any], reader: str) -> None:
    engine, architecture = READERS[reader]
    layers = 61 if "61" in row["config"] else 36 if "36 layers" in row["config"] else 8
    assert fed(engine, architecture=architecture, layers=layers, **KEYS.get(row["config"], {})).value(FED) == row[reader]


def test_whether_the_class_captures_and_which_stream_are_fields() -> None:
    assert fed("sglang==0.5.23").value("hidden_states.supported") is True
    assert fed("sglang==0.5.4", architecture="DeepseekV3ForCausalLM").value("hidden_states.supported") is False
    assert fed("sglang==0.5.23", architecture="NemotronHForCausalLM").outcome is Outcome.ERROR_AT_LOAD
    assert fed("sglang==0.5.23").value("hidden_states.point") == "residual"
    assert fed("sglang==0.5.23", architecture="Gemma3ForCausalLM").value("hidden_states.point") == "branch_only"


def test_a_target_without_a_class_is_known_by_its_model_type() -> None:
    config = {"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 64, "vocab_size": 256}
    (reading,) = read(drafter(**nested(2, 30, 58)), "sglang==0.5.12", config)
    assert reading.value(FED) == [3, 31, 59]
