"""Targets with odd configs: whatever they hold, the rules answer; and what decides pages and rotation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from factory import pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.findings import Check
from eagle3_contract.check.pairing import RULES
from eagle3_contract.check.run import check_spec

BASE: dict[str, Any] = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96}
HYBRID = {"layer_types": ["sliding_attention", "full_attention"]}
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 200), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
KEYS = (
    *("torch_dtype", "dtype", "quantization_config", "compression_config", "layer_types", "num_key_value_heads", "num_attention_heads"),
    *("head_dim", "kv_lora_rank", "qk_rope_head_dim", "pad_token_id", "mask_token_id", "text_config", "rotation_config"),
)


def found(folder: Path, config: dict[str, Any], name: str = "target") -> dict[str, Check]:
    """The pairing checks for a target's config, by the last part of the rule."""
    spec = pair().write(folder / "drafter")
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps(BASE | config))
    report = check_spec(spec, target=folder / name / "config.json")
    return {c.rule.partition(".")[2]: c for c in report.checks if c.rule in {r.id for r in RULES}}


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_target_config_is_answered(tmp_path: Path, config: dict[str, Any]) -> None:
    assert set(found(tmp_path, config)) == {r.id.partition(".")[2] for r in RULES}


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12} | HYBRID, "passed"),
        ({"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 12} | HYBRID, "passed"),
        ({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}, "passed"),
        ({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16} | HYBRID, "unknown"),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64} | HYBRID, "passed"),
        ({"kv_lora_rank": 500, "qk_rope_head_dim": 64} | HYBRID, "unknown"),
        ({}, "skipped"),
    ],
)
def test_pages_divide_or_belong_to_one_kind(tmp_path: Path, config: dict[str, Any], status: str) -> None:
    assert found(tmp_path, config)["page-layout"].status.value == status


@pytest.mark.parametrize(
    ("config", "name", "status"),
    [
        ({}, "target", "passed"),
        ({}, "Qwen3-32B-w8a8-quarot", "failed"),
        ({"quantization_config": {"quant_method": "x", "rotation_config": {"size": 64}}}, "target", "failed"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "target", "passed"),
        ({"quantization_config": {"online_hadamard": False}}, "target", "passed"),
    ],
)
def test_rotation_is_found_where_it_is_named(tmp_path: Path, config: dict[str, Any], name: str, status: str) -> None:
    assert found(tmp_path, config, name)["rotated"].status.value == status
