"""A config may hold anything: a reading says something about every one, and never fails itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import to_reading
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.reading import FIELDS, Outcome, as_json
from eagle3_contract.readings.text import reading_text
from eagle3_contract.readings.view import DrafterView, Target
from tests.readings.drafters import config, headers, target

MORE = (
    "eagle_aux_hidden_state_layer_ids",
    "eagle_config",
    "num_aux_hidden_states",
    "num_aux_layers",
    "target_hidden_size",
    "fc_norm",
    "use_aux_norm",
    "norm_before_fc",
    "norm_output",
    "bias",
    "attention_bias",
    "mlp_bias",
    "rope_scaling",
    "rope_parameters",
    "sliding_window",
    "layer_types",
    "dflash_config",
    "target_layer_ids",
    "n_predict",
    "speculators_model_type",
    "speculators_config",
    "transformer_layer_config",
)
KEYS = (*config(), *MORE)
NESTED = [
    "eagle_aux_hidden_state_layer_ids",
    "use_aux_hidden_state",
    "norm_before_fc",
    "layer_ids",
    "rope_type",
    "factor",
    "rope_theta",
    "type",
]
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5),
    st.sampled_from(["llama", "qwen3", "kimi_k2", "yarn", "linear", "llama3", "eagle3", "sliding_attention"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NESTED), inner, max_size=3)),
    max_leaves=8,
)
changes = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)


@settings(max_examples=30, deadline=None)
@given(
    drafter=changes,
    aim=st.dictionaries(st.sampled_from(["num_hidden_layers", "hidden_size", "vocab_size", "architectures"]), values, max_size=2),
)
@pytest.mark.parametrize("engine", PROFILES)
def test_any_config_is_read(engine: str, drafter: dict[str, Any], aim: dict[str, Any]) -> None:
    view = DrafterView.of(config() | drafter, headers())
    for reading in read(view, engine, Target(dict(target().config) | aim)):
        shown = as_json(reading)
        assert {f["field"] for f in shown["fields"]} >= set(FIELDS)
        assert (reading.outcome is Outcome.OK) == (reading.error is None)
        json.dumps(shown)
        reading_text(reading)
        to_reading(reading)


def test_a_huge_number_of_layers_is_answered_at_once() -> None:
    view = DrafterView.of(config(num_hidden_layers=10**12, num_aux_hidden_states=10**12), headers())
    (reading,) = read(view, "sglang==0.5.23", target(layers=10**12))
    assert reading.outcome is Outcome.ERROR_AT_LOAD
    assert len(reading.tensors) < 20_000
