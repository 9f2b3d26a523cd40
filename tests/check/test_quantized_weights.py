"""A quantisation that the drafter's files declare, against the weights that are stored, on both engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from factory import Pair, Tensor, pair

from contract.findings import Check, Status
from contract.reporting import Report
from eagle3_contract.check.quantized_weights import QUANTIZATION
from eagle3_contract.check.run import check_spec

SGLANG, VLLM = "sglang==0.5.23", "vllm[v1]==0.32.0"
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
AWQ = {"quant_method": "awq", "bits": 4}
PACKED = {"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"]}}}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def drafter(engine: str) -> Pair:
    return pair() if engine == SGLANG else pair(layout="flat", ids=(2, 4, 5))


def scaled(made: Pair, suffix: str = "weight_scale", *, only: tuple[str, ...] = PROJECTIONS) -> None:
    """Scales beside the projections, as an export in eight bits has them."""
    for name in list(made.tensors):
        layer = name.removesuffix(".weight")
        if name.endswith(tuple(f"{p}.weight" for p in only)):
            made.tensors[f"{layer}.{suffix}"] = Tensor(made.tensors[name].values[:1, 0] * 0 + 1, "float32")


def found(made: Pair, folder: Path, engine: str, flags: dict[str, Any] | None = None) -> list[Check]:
    report: Report = check_spec(made.write(folder / "drafter"), engines=[engine], flags={} if flags is None else {engine: flags})
    return [c for c in report.checks if c.rule == QUANTIZATION.id]


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
@pytest.mark.parametrize(("key", "section"), [("quantization_config", FP8), ("compression_config", PACKED), ("quantization_config", AWQ)])
def test_plain_weights_under_a_declared_method_fail(tmp_path: Path, engine: str, key: str, section: dict[str, Any]) -> None:
    made = drafter(engine)
    made.config[key] = section
    (check,) = found(made, tmp_path, engine)
    assert check.status is Status.FAILED
    assert str(section["quant_method"]) in check.message
    assert "7 layers are not stored so" in check.message
    assert check.evidence["key"] == f"{key}.quant_method"


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_nothing_is_said_where_nothing_is_declared(tmp_path: Path, engine: str) -> None:
    assert found(drafter(engine), tmp_path, engine) == []


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
@pytest.mark.parametrize("section", [FP8, {**FP8, "weight_block_size": [128, 128]}, PACKED])
def test_weights_with_their_scales_pass(tmp_path: Path, engine: str, section: dict[str, Any]) -> None:
    made = drafter(engine)
    made.config["quantization_config"] = section
    scaled(made, "weight_scale_inv" if "weight_block_size" in section else "weight_scale")
    (check,) = found(made, tmp_path, engine)
    assert check.status is Status.PASSED


@pytest.mark.parametrize("suffix", ["input_scale", "k_scale"])
def test_scales_of_activations_and_of_the_cache_are_none_of_the_weights(tmp_path: Path, suffix: str) -> None:
    made = drafter(SGLANG)
    made.config["quantization_config"] = FP8
    scaled(made, suffix)
    (check,) = found(made, tmp_path, SGLANG)
    assert check.status is Status.FAILED


@pytest.mark.parametrize(
    ("ignored", "status"), [(None, Status.FAILED), (["lm_head"], Status.FAILED), (["model.layers.0.mlp"], Status.FAILED)]
)
def test_some_layers_without_scales(tmp_path: Path, ignored: list[str] | None, status: Status) -> None:
    made = drafter(SGLANG)
    made.config["quantization_config"] = FP8 if ignored is None else {**FP8, "ignored_layers": ignored}
    scaled(made, only=("q_proj", "k_proj", "v_proj"))
    (check,) = found(made, tmp_path, SGLANG)
    assert check.status is status
    assert "4 layers" in check.message


@pytest.mark.parametrize(("scales", "status"), [(("q_proj",), Status.PASSED), ((), Status.UNKNOWN)])
def test_a_list_of_excluded_layers_is_the_engines_to_match(tmp_path: Path, scales: tuple[str, ...], status: Status) -> None:
    made = drafter(VLLM)
    made.config["quantization_config"] = {**FP8, "modules_to_not_convert": ["re:.*midlayer.*", "model.layers.0.mlp.down_proj"]}
    if scales:
        scaled(made, only=scales)
    (check,) = found(made, tmp_path, VLLM)
    assert (check.status, check.required) == (status, True)


@pytest.mark.parametrize(
    ("file", "sglang", "vllm"),
    [
        ({"quantization": {"quant_algo": "FP8"}}, Status.FAILED, Status.UNKNOWN),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": []}}, Status.FAILED, Status.FAILED),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": None, "kv_cache_quant_algo": None}}, None, None),
    ],
)
@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_modelopts_own_file(tmp_path: Path, engine: str, file: dict[str, Any], sglang: Status | None, vllm: Status | None) -> None:
    made = drafter(engine)
    made.files["hf_quant_config.json"] = json.dumps(file).encode()
    wanted = sglang if engine == SGLANG else vllm
    checks = found(made, tmp_path, engine)
    assert [c.status for c in checks] == ([] if wanted is None else [wanted])
    assert all(c.required for c in checks)


def test_an_unquantised_draft_is_still_what_its_file_says(tmp_path: Path) -> None:
    """The flag only keeps the target's method away (SGLang 0.5.23 configs/model_config.py:2093-2136)."""
    made = drafter(SGLANG)
    made.config["quantization_config"] = FP8
    (check,) = found(made, tmp_path, SGLANG, {"speculative_draft_model_quantization": "unquant"})
    assert check.status is Status.FAILED
    del made.config["quantization_config"]
    assert found(made, tmp_path / "plain", SGLANG, {"speculative_draft_model_quantization": "unquant"}) == []


def test_a_method_for_experts_changes_no_linear_layer(tmp_path: Path) -> None:
    made = drafter(VLLM)
    made.config["quantization_config"] = {"quant_method": "mxfp4"}
    (check,) = found(made, tmp_path, VLLM)
    assert check.status is Status.PASSED


def test_a_section_without_a_method_is_not_kept(tmp_path: Path) -> None:
    made = drafter(VLLM)
    made.config["quantization_config"] = {"bits": 8}
    (check,) = found(made, tmp_path, VLLM)
    assert (check.status, check.required) == (Status.UNKNOWN, True)
