"""What the class of a model_type adds to config.json, against the classes of transformers themselves."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.config_classes import CLASS_DEFAULTS, has_class
from eagle3_contract.readings.draft_config import build_config
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.reading import CONFIG_CLASS, EngineReading, Outcome
from eagle3_contract.readings.rules import Origin
from tests.readings.drafters import drafter, target

VLLM, SGLANG = "vllm[v1]==0.32.0", "sglang==0.5.23"
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 256}
READ = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"),
    *("hidden_act", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "attention_bias", "mlp_bias", "bias"),
    *("sliding_window", "use_sliding_window", "layer_types", "logit_scale", "is_causal", "norm_output", "fc_norm", "n_predict", "qkv_bias"),
)
"""Keys that a profile reads, beside those of rope."""
VARIANTS: dict[str, dict[str, Any]] = {
    "sizes": {},
    "nothing": dict.fromkeys(SIZES, ...),
    "theta": {"rope_theta": 7e5},
    "scaling": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "parameters": {"rope_parameters": {"rope_type": "default", "rope_theta": 3e4}},
    "partial": {"partial_rotary_factor": 0.25},
    "window": {"sliding_window": 96},
    "switched": {"sliding_window": 96, "use_sliding_window": True, "max_window_layers": 1},
    "switched without a size": {"use_sliding_window": True, "max_window_layers": 0},
    "types": {"sliding_window": 96, "layer_types": ["sliding_attention", "full_attention"]},
    "head": {"head_dim": 32, "num_key_value_heads": 2},
    "null": {"rope_scaling": None},
}
DERIVED = frozenset({"deepseek_v3", "kimi_k2"})
"""Their head_dim is the rotated part, which latent attention does not read as such."""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", sorted(CLASS_DEFAULTS.keys() - {"kimi_k2"}))
def test_the_table_does_what_the_class_does(name: str, variant: str) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    given = {k: v for k, v in (SIZES | VARIANTS[variant]).items() if v is not ...}
    if not has_class({"model_type": name, **given}):
        assert (name, variant) in {("phi3", "scaling"), ("phi3", "parameters")}
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = CONFIG_MAPPING[name](**given)
    ours = build_config({"model_type": name, **given}, speculators=None, copies=(), overrides={}, class_defaults=True, rope_parameters=True)
    for key in READ:
        if key == "head_dim" and name in DERIVED:
            continue
        value, _ = ours.get(key)
        wanted = getattr(theirs, key, MISSING)
        absent = wanted in (MISSING, None) and value in (MISSING, None)
        assert absent or value == wanted, key
    rope = {"rope_theta": 10000.0, "rope_type": "default"} | ours.values["rope_parameters"]
    assert {k: v for k, v in rope.items() if k != "type"} == {k: v for k, v in theirs.rope_parameters.items() if k != "type"}


def one(engine: str, **keys: Any) -> EngineReading:
    return read(drafter(**keys), engine, target())[0]


def test_a_window_that_no_key_names() -> None:
    reading = one(VLLM, model_type="gpt_oss")
    assert (reading.value("window"), reading.get("window").origin) == (128, Origin.DEFAULT)
    assert one(VLLM, model_type="gpt_oss", layer_types=["full_attention"]).value("window") is None
    assert one(SGLANG, model_type="gpt_oss").value("window") is None
    assert one(VLLM).value("window") is None


@pytest.mark.parametrize("engine", [VLLM, SGLANG])
def test_half_a_head_is_rotated(engine: str) -> None:
    assert one(engine, model_type="glm4").value("rope.rotary_dim") == 16
    assert one(engine, model_type="glm4", partial_rotary_factor=1.0).value("rope.rotary_dim") == 32
    assert one(engine, model_type="minimax_m2", rotary_dim=16).value("rope.rotary_dim") == 16
    assert one(engine).value("rope.rotary_dim") == 32


@pytest.mark.parametrize("engine", [VLLM, SGLANG])
@pytest.mark.parametrize(("name", "theta"), [("mixtral", 1e6), ("minimax_m2", 5e6), ("gpt_oss", 150000.0), ("llama", 1e4), ("phi3", 1e4)])
def test_theta_of_the_class(engine: str, name: str, theta: float) -> None:
    reading = one(engine, model_type=name, rope_theta=...)
    assert (reading.value("rope.theta"), reading.get("rope.theta").origin) == (theta, Origin.DEFAULT)
    assert one(engine, model_type=name, rope_theta=7e5).value("rope.theta") == 7e5


def test_a_switched_window_reaches_a_qwen_drafter() -> None:
    keys: dict[str, Any] = {"model_type": "qwen3", "sliding_window": 96, "max_window_layers": 0}
    assert one(VLLM, **keys, use_sliding_window=True).value("window") == 96
    assert one(VLLM, **keys).value("window") is None
    assert one(VLLM, **keys, layer_types=["sliding_attention"]).value("window") is None


@pytest.mark.parametrize("engine", [VLLM, SGLANG])
@pytest.mark.parametrize("name", ["cohere2", "gemma3_text", "minimax", "nobody_has_this", "phi3"])
def test_an_unlisted_class_is_not_known(engine: str, name: str) -> None:
    keys: dict[str, Any] = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}} if name == "phi3" else {}
    reading = one(engine, model_type=name, **keys)
    field = reading.get(CONFIG_CLASS)
    assert (field.known, field.looked_for) == (False, ("model_type",))
    assert name in field.rule
    assert isinstance(to_reading(reading), CannotRun)


@pytest.mark.parametrize("engine", [VLLM, SGLANG])
@pytest.mark.parametrize("name", ["llama", "qwen3", "kimi_k2", "deepseek_v3", "eagle", ...])
def test_types_that_trainers_write_say_nothing_more(engine: str, name: Any) -> None:
    reading = one(engine, model_type=name)
    assert CONFIG_CLASS not in {f.field for f in reading.fields}
    assert reading.outcome is (Outcome.OK if name == "llama" else reading.outcome)
