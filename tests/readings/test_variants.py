"""Single behaviours of SGLang 0.5.23 and vLLM 0.32.0 that were seen on the running engines but are in no recorded row."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.reading import EngineReading, Outcome
from eagle3_contract.readings.rules import Fate, Origin
from tests.readings.drafters import drafter, target

FED = "hidden_states.boundaries"
TOP = "eagle_aux_hidden_state_layer_ids"
OK, LOAD, FIRST = Outcome.OK, Outcome.ERROR_AT_LOAD, Outcome.ERROR_AT_FIRST_REQUEST


def one(
    engine: str, layers: int = 8, architecture: str = "LlamaForCausalLM", flags: dict[str, Any] | None = None, **more: Any
) -> EngineReading:
    return read(drafter(**more), engine, target(architecture, layers), flags)[0]


def sglang(**more: Any) -> EngineReading:
    return one("sglang==0.5.23", **more)


def vllm(**more: Any) -> EngineReading:
    return one("vllm[v1]==0.32.0", **more)


def nested(*ids: Any, **more: Any) -> dict[str, Any]:
    return {"eagle_config": {TOP: list(ids), **more}}


def test_one_surviving_state_skips_fc_and_runs_on() -> None:
    reading = sglang(layers=11, **nested(0, 10, 11))
    assert (reading.value(FED), reading.value("fc.applied"), reading.outcome) == ([1], False, OK)


@pytest.mark.parametrize(("value", "fed"), [(None, ["final_norm"]), (0, ["final_norm"]), ("false", [2, 4, 5])])
def test_what_counts_as_no_aux(value: Any, fed: list[Any]) -> None:
    assert sglang(**nested(1, 3, 4, use_aux_hidden_state=value)).value(FED) == fed


def test_gpt_oss_takes_ids_as_they_are_only_if_the_largest_is_n() -> None:
    assert sglang(architecture="GptOssForCausalLM", **nested(0, 3, 8)).value(FED) == [0, 3, 8]
    crash = sglang(architecture="GptOssForCausalLM", **nested(-1, 3, 8))
    assert (crash.value(FED), crash.outcome) == ([3, 8], FIRST)


def test_deepseek_minus_one_never_matches_and_is_counted() -> None:
    reading = sglang(architecture="DeepseekV3ForCausalLM", **nested(-1, 3, 6))
    assert reading.outcome is FIRST
    assert "captured 2 of 3" in str(reading.error)


def test_a_float_first_id_counts_as_one() -> None:
    assert sglang(architecture="DeepseekV3ForCausalLM", **nested(1.0, 3, 6)).value(FED) == [2, 4, 7]


def test_overrides_reach_ids_and_norm_output_but_not_rope_theta() -> None:
    flags = {"json_model_override_args": {**nested(0, 3, 5), "norm_output": True, "rope_theta": 5e5}}
    reading = sglang(flags=flags)
    assert (reading.value(FED), reading.get(FED).origin) == ([1, 4, 6], Origin.FLAG)
    assert (reading.value("wiring.feedback"), reading.value("rope.theta")) == ("post_norm", 10000.0)


def test_a_null_draft_vocabulary_drops_the_files_own_full_head() -> None:
    tensors = {"lm_head.weight": ("BF16", [256, 64]), "d2t": ...}
    reading = sglang(draft_vocab_size=None, tensors=tensors)
    assert (reading.fate("lm_head.weight"), reading.value("lm_head.used"), reading.outcome) == (Fate.REPLACED_BY_TARGET, "target", OK)


def test_a_tied_head_in_the_file_is_dropped() -> None:
    reading = sglang(tie_word_embeddings=True)
    assert (reading.fate("lm_head.weight"), reading.value("lm_head.used")) == (Fate.DROPPED, "tied_to_target")
    assert vllm(tie_word_embeddings=True).fate("lm_head.weight") is Fate.LOADED


@pytest.mark.parametrize("engine", ["sglang==0.5.23", "vllm[v1]==0.32.0"])
@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ({"target_hidden_size": None}, LOAD),
        ({"rms_norm_eps": "1e-5"}, LOAD),
        ({"eagle_config": [1, 3, 4]}, LOAD),
        ({"hidden_act": "gelu"}, LOAD),
        ({"rope_scaling": {"rope_type": "yarn"}}, LOAD),
        ({"num_aux_hidden_states": 2}, LOAD),
        ({"head_dim": 64}, LOAD),
        ({"norm_output": True}, OK),
    ],
)
def test_loud_and_quiet_keys(engine: str, keys: dict[str, Any], outcome: Outcome) -> None:
    assert one(engine, **keys).outcome is outcome


def test_layers_zero_names_load_from_0_5_12_on() -> None:
    view = drafter(layer="layers.0")
    assert read(view, "sglang==0.5.12", target())[0].fate("layers.0.self_attn.q_proj.weight") is Fate.LOADED
    old = read(view, "sglang==0.5.11", target())[0]
    assert (old.fate("layers.0.self_attn.q_proj.weight"), old.outcome) == (Fate.DROPPED, OK)
    assert old.fate("layers.0.mlp.down_proj.weight") is Fate.DROPPED


def test_vllm_key_precedence() -> None:
    dflash = {"dflash_config": {"target_layer_ids": [0, 2, 4]}}
    assert vllm(**dflash).value(FED) == [1, 3, 5]
    assert vllm(**dflash, eagle_config={"norm_before_fc": False}).value(FED) == [2, 4, 5]
    assert vllm(**{TOP: []}, **nested(0, 3, 6)).value(FED) == [0, 3, 6]
    assert vllm(**{TOP: {"0": 1}}, **nested(0, 3, 6)).value(FED) == [2, 4, 5]
    assert vllm(**{TOP: "134"}).value(FED) == [2, 4, 5]


def test_vllm_heads_embeddings_and_maps() -> None:
    assert vllm(tensors={"lm_head.weight": ...}).value("lm_head.used") == "target"
    assert vllm(tensors={"embed_tokens.weight": ("BF16", [256, 64])}).value("embedding.used") == "own"
    without = vllm(tensors={"d2t": ...})
    assert (without.fate("d2t"), without.value("vocab.map"), without.outcome) == (Fate.MISSING_ZEROS, "identity", OK)
    assert vllm(draft_vocab_size=..., tensors={"lm_head.weight": ("BF16", [256, 64])}).outcome is LOAD


def test_vllm_drops_an_unknown_bias_and_refuses_an_unknown_weight() -> None:
    assert vllm(tensors={"midlayer.mlp.up_proj.bias": ("BF16", [128])}).fate("midlayer.mlp.up_proj.bias") is Fate.DROPPED
    refused = vllm(tensors={"midlayer.self_attn.q_norm.weight": ("BF16", [32])})
    assert (refused.fate("midlayer.self_attn.q_norm.weight"), refused.outcome) == (Fate.ERROR, LOAD)


def test_dtypes() -> None:
    float32 = drafter(tensors={"fc.weight": ("F32", [64, 192])})
    assert read(float32, "sglang", target())[0].fate("fc.weight") is Fate.CAST
    assert read(float32, "sglang", target(), {"dtype": "float32"})[0].fate("norm.weight") is Fate.CAST
    assert sglang(torch_dtype="float32").value("dtype") == "float16"
    assert vllm(torch_dtype="float32").value("dtype") == "bfloat16"


@pytest.mark.parametrize("key", ["rotary_pct", "rotary_emb_fraction"])
def test_other_names_of_the_rotated_share_reach_vllm_only(key: str) -> None:
    """What get_config of vLLM 0.32.0 made of such a config.json: partial_rotary_factor in rope_parameters."""
    reading = vllm(**{key: 0.5})
    assert (reading.value("rope.rotary_dim"), key in reading.ignored_keys) == (16, False)
    assert vllm(**{key: 0.5}, partial_rotary_factor=0.25).value("rope.rotary_dim") == 8
    assert vllm(**{key: None}).value("rope.rotary_dim") == 32
    assert sglang(**{key: 0.5}).value("rope.rotary_dim") == 32
    assert key in sglang(**{key: 0.5}).ignored_keys


@pytest.mark.parametrize(("value", "interleaved"), [(False, True), (None, True), (0, True), (True, False), (..., False)])
def test_the_rotation_of_sglang_is_a_key(value: Any, interleaved: bool) -> None:
    assert sglang(rope_is_neox_style=value).value("rope.interleaved") is interleaved
    if value is not ...:
        by_flag = sglang(flags={"json_model_override_args": {"rope_is_neox_style": value}})
        assert (by_flag.value("rope.interleaved"), by_flag.get("rope.interleaved").origin) == (interleaved, Origin.FLAG)
    assert vllm(rope_is_neox_style=value).value("rope.interleaved") is False


@pytest.mark.parametrize(("value", "causal"), [(False, False), (None, False), (True, True), (..., True)])
def test_attention_to_later_tokens_is_a_key_of_vllm(value: Any, causal: bool) -> None:
    """The running 0.32.0 stopped at start: EncoderOnlyAttention has no cache to be grouped."""
    reading = vllm(is_causal=value)
    assert reading.outcome is (OK if causal else LOAD)
    other_runner = one("vllm[v2]==0.32.0", is_causal=value)
    assert (other_runner.value("attention.causal"), other_runner.outcome) == (causal, OK)
    assert reading.value("attention.causal") is causal
    assert isinstance(to_reading(reading), CannotRun) is not causal
    assert "attention.causal" not in {f.field for f in sglang(is_causal=value).fields}


def test_the_latent_drafter_of_sglang_has_a_key_of_its_own() -> None:
    keys: dict[str, Any] = {"model_type": "kimi_k2", "architectures": ["Eagle3DeepseekV2ForCausalLM"]}
    for value, interleaved in ((False, False), (True, True), (..., True)):
        assert sglang(**keys, rope_interleave=value, rope_is_neox_style=False).value("rope.interleaved") is interleaved
