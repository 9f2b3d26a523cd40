"""What was asked for beside what takes effect, and flags for engines that nobody reads."""

from __future__ import annotations

import pytest

from contract.errors import UsageError
from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.serve_args import parse_serve_args
from eagle3_contract.readings.serve_asked import asked, bare, flag_text, flag_value, flags_for, refuse_unmatched
from eagle3_contract.readings.text import reading_text
from tests.readings.drafters import drafter, target
from tests.readings.test_serve_args import SEED


def test_effective_values_stand_beside_the_asked_ones() -> None:
    reading = read(drafter(), "sglang==0.5.23", target("LlamaForCausalLM"), parse_serve_args("sglang", SEED))[0]
    assert asked(reading, "serve.draft_tokens") == ("speculative_num_draft_tokens", 16)
    assert asked(reading, "serve.context_length") == ("context_length", MISSING)
    rows = [line.split() for line in reading_text(reading).splitlines() if "serve.draft_tokens" in line]
    assert rows[-1][:4] == ["!", "serve.draft_tokens", "16", "2"] or rows[0][:4] == ["!", "serve.draft_tokens", "16", "2"]
    steps = next(line.split() for line in reading_text(reading).splitlines() if "serve.steps" in line)
    assert steps[:3] == ["serve.steps", "1", "1"]


def test_dotted_flags() -> None:
    flags = {"speculative_config": {"method": "eagle3"}}
    assert flag_value(flags, "speculative_config.method") == "eagle3"
    assert flag_value(flags, "speculative_config.model") is MISSING
    assert flag_value({"speculative_config": None}, "speculative_config.model") is MISSING
    assert flag_text("speculative_config.method") == "--speculative-config.method"


def test_flags_are_found_under_the_reference_before_the_name() -> None:
    given = {"vllm": "--max-model-len 10", "vllm[v2]==0.32.0": "--max-model-len 20"}
    assert flags_for("vllm[v2]==0.32.0", given)["max_model_len"] == 20
    assert flags_for("vllm[v1]==0.32.0", given)["max_model_len"] == 10
    assert flags_for("sglang", given) == {}
    assert bare("vllm[v2]==0.32.0") == "vllm"


def test_flags_of_an_engine_that_is_not_read_are_refused() -> None:
    refuse_unmatched(["vllm[v2]==0.32.0"], {"vllm": "--x 1"})
    with pytest.raises(UsageError) as caught:
        refuse_unmatched(["sglang==0.5.23"], {"vllm": "--x 1"})
    assert caught.value.rule == "flags.no-engine"
    assert "vllm" in caught.value.message
