"""Every recorded engine run is predicted: outcome, what is fed, every parameter, wiring, rope, map, and the flags in effect."""

from __future__ import annotations

import re
from typing import Any

import pytest

from eagle3_contract.readings.reading import EngineReading, Outcome
from eagle3_contract.readings.rules import Fate
from tests.readings.observed import predicted, rows

SGLANG, VLLM = rows("sglang"), rows("vllm")
RUNNER = {"sglang": None, "vllm": "v1"}
SOURCES = {
    "ones": Fate.MISSING_ONES,
    "zeros": Fate.MISSING_ZEROS,
    "uninitialised": Fate.MISSING_UNINITIALISED,
    "random_init_uniform": Fate.MISSING_RANDOM,
}
OUT_OF_EFFECT = {Fate.DROPPED, Fate.REPLACED_BY_TARGET, Fate.SHADOWED}
ROPE_CLASSES = {
    "RotaryEmbedding": "default",
    "Llama3RotaryEmbedding": "llama3",
    "LinearScalingRotaryEmbedding": "linear",
    "DeepseekScalingRotaryEmbedding": "yarn",
    "YaRNScalingRotaryEmbedding": "yarn",
    "DynamicNTKScalingRotaryEmbedding": "dynamic",
}


def _expected_fates(param: dict[str, Any]) -> set[Fate]:
    if param["source"] == "target":
        return {Fate.REPLACED_BY_TARGET, Fate.SHARED_FROM_TARGET}
    if param["source"] != "checkpoint":
        return {SOURCES[param["source"]]}
    if "first_rows_of" in param or "top_left_block_of" in param:
        return {Fate.SLICED}
    if "rows" in param or "fills_top_left_block" in param:
        return {Fate.PADDED}
    return {Fate.LOADED, Fate.CAST}


def parameter_differences(row: dict[str, Any], reading: EngineReading) -> list[str]:
    """Differences between the observed parameters and the predicted fates."""
    observed = {name.replace("midlayer.", "layers.0."): p for name, p in (row["observed"].get("params") or {}).items()}
    mine = {
        t.parameter.replace("midlayer.", "layers.0."): t
        for t in reading.tensors
        if t.parameter and t.fate is not Fate.SHADOWED and "d2t" not in t.name and t.parameter != "mask_hidden"
    }
    found = [f"{n}: predicted, not there" for n in mine.keys() - observed.keys()] + [
        f"{n}: not predicted" for n in observed.keys() - mine.keys()
    ]
    for name in mine.keys() & observed.keys():
        fate, wanted = mine[name].fate, _expected_fates(observed[name])
        if fate is Fate.SHARED_FROM_TARGET and row["observed"].get("shared_with_target") is None:
            continue  # the engine died before it came to sharing; the record shows the parameter as the loader left it
        if fate not in wanted:
            found.append(f"{name}: {fate}, observed {observed[name]}")
        if observed[name]["source"] == "checkpoint" and observed[name]["tensor"].split(" [")[0] != mine[name].name:
            found.append(f"{name}: from {mine[name].name}, observed {observed[name]['tensor']}")
    unused = {t.name for t in reading.tensors if t.fate in OUT_OF_EFFECT and "d2t" not in t.name and "t2d" not in t.name}
    # mask_hidden is a buffer: the record lists parameters only, so that it never counts as in effect.
    seen = {n.split(" [")[0] for n in row["observed"].get("checkpoint_tensors_not_in_effect") or []} - {"mask_hidden"}
    return found + [f"in effect or not: {unused ^ seen}"] * ((unused - {"mask_hidden"}) != seen)


def wiring_differences(row: dict[str, Any], reading: EngineReading) -> list[str]:
    wiring = row["observed"].get("wiring") or {}
    norms = reading.value("norms.before_fc") if reading.value("fc.applied") else []
    mine = {
        "norm_before_residual": reading.value("wiring.norm_before_residual"),
        "input_norm_before_fc": "input_norm" in norms,
        "fc_norm_per_chunk": "fc_norm" in norms,
        "fc": reading.value("fc.applied"),
        "fc_bias": reading.value("fc.bias") and reading.value("fc.applied"),
        "qkv_bias": reading.value("attention.qkv_bias"),
        "o_bias": reading.value("attention.o_bias"),
        "mlp_bias": reading.value("mlp_bias"),
        "attention_window": reading.value("window"),
        "norm_before_attention_of_layer_1": reading.value("wiring.later_layer_norm"),
    }
    found = [
        f"{k}: {mine[k]!r}, observed {v!r}" for k, v in (wiring.get("in_effect") or {}).items() if v != "indistinguishable" and v != mine[k]
    ]
    step = wiring.get("next_step_hidden")
    carry = row["observed"].get("carry")
    if step is not None and step != reading.value("wiring.feedback"):
        found.append(f"feedback: {reading.value('wiring.feedback')}, observed {step}")
    if carry is not None and (carry == "not the normed output") != (reading.value("wiring.feedback") == "pre_norm"):
        found.append(f"feedback: {reading.value('wiring.feedback')}, observed {carry}")
    return found


def _table_rows(rope: dict[str, Any]) -> int:
    """Rows of a yarn table: counted, or (in records that did not count) the module's length before stretching times the factor of the
    candidate that its cosines equal. Of the other types the module's own length, which it does not stretch."""
    if ROPE_CLASSES[rope["class"]] != "yarn":
        return int(rope["max_position"])
    if "table_rows" in rope:
        return int(rope["table_rows"])
    factor = re.match(r"yarn factor=(\d+)", rope["cache_equals"][0])
    assert factor is not None
    return int(rope["max_position"]) * int(factor[1])


def rope_differences(row: dict[str, Any], reading: EngineReading) -> list[str]:
    rope = row["observed"].get("rope")
    if not rope:
        return []
    pairs = {
        "rope.theta": rope["base"],
        "rope.rotary_dim": rope["rotary_dim"],
        "rope.table_length": _table_rows(rope),
        "rope.interleaved": not rope["neox"],
        "rope.type": ROPE_CLASSES[rope["class"]],
    }
    found = [f"{k}: {reading.value(k)!r}, observed {v!r}" for k, v in pairs.items() if reading.value(k) != v]
    eps = row["observed"].get("rms_norm_eps")
    return found + [f"eps {reading.value('rms_norm_eps')}, observed {eps}"] * (bool(eps) and eps != [reading.value("rms_norm_eps")])


def sharing_differences(row: dict[str, Any], reading: EngineReading) -> list[str]:
    observed = row["observed"]
    shared = observed.get("shared_with_target")
    found: list[str] = []
    # An own embedding whose values equal the target's is the target's object afterwards: no difference in any number (v6d).
    if shared and observed["outcome"] != "error_at_first_request" and row["id"] != "v6d_embed_equal_to_target":
        mine = (reading.value("embedding.used") == "target", reading.value("lm_head.used") in ("target", "tied_to_target"))
        if mine != (shared["embed_tokens"], shared["lm_head"] or shared["lm_head_is_embed_tokens"]):
            found.append(f"sharing {mine}, observed {shared}")
    if observed.get("d2t") and observed["d2t"]["present"] != reading.value("vocab.present"):
        found.append(f"map {reading.value('vocab.present')}, observed {observed['d2t']}")
    return found


def flag_differences(row: dict[str, Any], reading: EngineReading) -> list[str]:
    effect = row["observed"].get("flags_in_effect") or {}
    names = {
        "speculative_num_steps": "serve.steps",
        "speculative_eagle_topk": "serve.topk",
        "speculative_num_draft_tokens": "serve.draft_tokens",
        "num_speculative_tokens": "serve.draft_tokens",
        "max_running_requests": "serve.max_running_requests",
        "method": "serve.method",
    }
    return [
        f"{k}: {reading.value(n)!r}, in effect {effect[k]!r}" for k, n in names.items() if k in effect and reading.value(n) != effect[k]
    ]


def differences(row: dict[str, Any]) -> list[str]:
    """Everything in which the prediction and the engine differ."""
    observed = row["observed"]
    reading = predicted(row, RUNNER[row["engine"]])
    found: list[str] = []
    if reading.outcome.value != observed["outcome"]:
        found.append(f"outcome {reading.outcome} ({reading.error}), observed {observed['outcome']} ({observed['error_first']})")
    fed = observed.get("boundaries_fed")
    if fed is not None and reading.value("hidden_states.boundaries") != fed:
        found.append(f"fed {reading.value('hidden_states.boundaries')}, observed {fed}")
    applied = observed.get("fc_applied_to_prompt_rows")
    if applied is not None and reading.value("fc.applied") != applied:
        found.append(f"fc {reading.value('fc.applied')}, observed {applied}")
    if observed.get("params"):
        found += parameter_differences(row, reading)
    found += wiring_differences(row, reading) + rope_differences(row, reading) + flag_differences(row, reading)
    if observed.get("load_completed"):
        found += sharing_differences(row, reading)
    return found


@pytest.mark.parametrize("row", SGLANG, ids=lambda r: str(r["id"]))
def test_sglang_does_what_the_profile_says(row: dict[str, Any]) -> None:
    assert differences(row) == []


@pytest.mark.parametrize("row", VLLM, ids=lambda r: str(r["id"]))
def test_vllm_does_what_the_profile_says(row: dict[str, Any]) -> None:
    assert differences(row) == []


def test_the_comparison_sees_a_wrong_record() -> None:
    row = SGLANG[0] | {"observed": SGLANG[0]["observed"] | {"boundaries_fed": [1, 3, 4], "outcome": Outcome.ERROR_AT_LOAD.value}}
    assert len(differences(row)) == 2
