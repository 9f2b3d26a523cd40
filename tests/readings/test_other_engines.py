"""Engines known from public sources: what they feed for one and the same file, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.reading import EngineReading, Outcome
from tests.readings.drafters import config, drafter, target

FED = "hidden_states.boundaries"
TOP, NESTED = "eagle_aux_hidden_state_layer_ids", "eagle_config"
SPECULATORS = {
    "speculators_model_type": "eagle3",
    "transformer_layer_config": config(architectures=..., draft_vocab_size=...),
    "draft_vocab_size": 128,
}
NOTHING: dict[str, Any] = dict.fromkeys(config(), ...)


def one(
    engine: str, architecture: str = "LlamaForCausalLM", layers: int = 32, flags: dict[str, Any] | None = None, **keys: Any
) -> EngineReading:
    return read(drafter(**keys), engine, target(architecture, layers), flags)[0]


@pytest.mark.parametrize(
    ("engine", "keys", "flags", "expected"),
    [
        ("tensorrt-llm[one_model]", {TOP: [1, 3, 5]}, {}, [2, 16, 29]),
        ("tensorrt-llm[one_model]", {}, {"eagle3_layers_to_capture": [2, 29, 57 - 26]}, [3, 30, 32]),
        ("tensorrt-llm[one_model]", {}, {"eagle3_layers_to_capture": [3, 5, -1]}, ["final_norm", 4, 6]),
        ("tensorrt-llm[two_model]", {}, {"eagle3_layers_to_capture": [3, 5, -1]}, [4, 6, "final_norm"]),
        ("llama.cpp", {TOP: [9, 0, 20]}, {}, [9, 0, 20]),
        ("llama.cpp==2026.7.1", {TOP: [9, 0, 20]}, {}, [2, 16, 29]),
        ("llama.cpp", {NESTED: {TOP: [9, 0, 20]}}, {}, [2, 16, 29]),
        ("tokenspeed", {TOP: [9, 0, 20]}, {}, [1, 10, 21]),
        ("tokenspeed", {TOP: [9, 0, 32]}, {}, [1, 10, 32]),
        ("tokenspeed", {TOP: [9, 0, 31]}, {}, [1, 10]),
        ("tokenspeed", {TOP: [9, 0, 20], NESTED: {}}, {}, [2, 16, 29]),
        ("atom", {NESTED: {TOP: [9, 3, 20], "use_aux_hidden_state": True}}, {}, [3, 9, 20]),
        ("atom", {NESTED: {TOP: [9, 3, 20]}}, {}, ["final_norm"]),
        ("eagle", {TOP: [1, 3, 5]}, {}, [2, 16, 29]),
    ],
)
def test_what_is_fed(engine: str, keys: dict[str, Any], flags: dict[str, Any], expected: list[Any]) -> None:
    assert one(engine, flags=flags, **keys).value(FED) == expected


def test_lmdeploy_takes_llama_only_and_feeds_its_own_list() -> None:
    assert one("lmdeploy").outcome is Outcome.ERROR_AT_LOAD
    reading = one("lmdeploy", architectures=["LlamaForCausalLM"], **{TOP: [1, 3, 5]})
    assert (reading.value(FED), reading.outcome) == ([2, 16, 29], Outcome.OK)
    without = read(drafter(tensors={"d2t": ...}, architectures=["LlamaForCausalLM"]), "lmdeploy", target())[0]
    assert without.value("vocab.map") == "zero"
    assert isinstance(to_reading(without), CannotRun)


def test_llama_cpp_needs_exactly_three_states_and_every_tensor() -> None:
    assert one("llama.cpp", **{TOP: [9, 0]}).outcome is Outcome.ERROR_AT_LOAD
    assert read(drafter(tensors={"norm.weight": ...}), "llama.cpp", target())[0].outcome is Outcome.ERROR_AT_LOAD


def test_mlx_vlm_reads_the_speculators_layout_and_two_kinds_of_ids() -> None:
    view = drafter(**(NOTHING | SPECULATORS))
    reading = read(view, "mlx-vlm", target())[0]
    assert reading.value("wiring.norm_before_residual") is False
    assert reading.get("wiring.norm_before_residual").known
    top = read(drafter(**(NOTHING | SPECULATORS | {TOP: [0, 3, 5]})), "mlx-vlm", target())[0]
    assert top.value(FED) == [1, 3, 5]


def test_atom_does_not_take_a_reduced_vocabulary() -> None:
    reading = one("atom")
    assert (reading.outcome, reading.value("vocab.present")) == (Outcome.ERROR_AT_LOAD, False)
    assert "lm_head" in str(reading.error)


def test_transformers_reads_the_contract_so_nothing_is_known_from_the_file() -> None:
    reading = one("transformers", **{TOP: [1, 3, 5]})
    assert reading.outcome is Outcome.OK
    assert not reading.get(FED).known
    assert isinstance(to_reading(reading), CannotRun)
