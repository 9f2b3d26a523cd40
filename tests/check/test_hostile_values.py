"""Any JSON under any key, and any shape in the headers: a finding at worst, never a traceback."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from factory import Tensor, pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.findings import ExitCode
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check_spec

KEYS = (
    *(
        "architectures",
        "model_type",
        "speculators_model_type",
        "speculators_config",
        "transformer_layer_config",
        "eagle_config",
        "dflash_config",
    ),
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"),
    *("draft_vocab_size", "target_hidden_size", "rms_norm_eps", "hidden_act", "max_position_embeddings", "rope_theta", "rope_scaling"),
    *(
        "rope_parameters",
        "partial_rotary_factor",
        "attention_bias",
        "mlp_bias",
        "bias",
        "logit_scale",
        "tie_word_embeddings",
        "torch_dtype",
    ),
    *("dtype", "sliding_window", "use_sliding_window", "layer_types", "norm_before_residual", "norm_before_fc", "fc_norm", "norm_output"),
    *("eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state", "num_aux_hidden_states", "target_layer_ids", "use_last_layernorm"),
)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=3)
)
quietly = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(changes=st.dictionaries(st.sampled_from(KEYS), anything, min_size=1, max_size=3), nested=st.booleans())
@quietly
def test_any_config(changes: dict[str, Any], nested: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = pair()
    (made.config["eagle_config"] if nested else made.config).update(changes)
    report = check_spec(made.write(tmp_path_factory.mktemp("pair")), engines=("sglang==0.5.23", "vllm==0.32.0"))
    assert report.checks


@given(
    shape=st.lists(st.integers(0, 5), max_size=4), dtype=st.sampled_from(["float32", "int64", "bool", "bfloat16", "int16"]), data=st.data()
)
@quietly
def test_any_shape(shape: list[int], dtype: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = pair()
    name = data.draw(st.sampled_from(sorted(made.tensors)))
    made.tensors[name] = Tensor(np.zeros(shape, dtype=np.float32), dtype)
    report = check_spec(
        made.write(tmp_path_factory.mktemp("pair")), integrity=Integrity.DIGESTS, engines=("sglang==0.5.23", "vllm==0.32.0")
    )
    assert report.exit_code is ExitCode.VIOLATED


@given(target=st.dictionaries(st.sampled_from((*KEYS, "text_config")), anything, max_size=3))
@quietly
def test_any_target(target: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pair")
    spec = pair().write(folder)
    (folder / "target.json").write_text(json.dumps(target))
    made = check_spec(spec, target=folder / "target.json", engines=("sglang==0.5.23", "vllm==0.32.0"))
    assert made.checks
