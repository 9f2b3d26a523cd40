"""Command lines and files as flags, and the values they take effect with beside the ones asked for."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import LimitExceeded, UsageError, UserError
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import EngineReading, Outcome
from eagle3_contract.readings.serve_args import flags_of, parse_serve_args
from eagle3_contract.readings.serve_files import command_of_file
from eagle3_contract.readings.versions import parse_version
from tests.readings.drafters import config, drafter, target

SEED = "--speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-num-steps 1 --speculative-eagle-topk 1 "
SEED += "--speculative-num-draft-tokens 16"


def served(engine: str, arguments: str, architecture: str = "LlamaForCausalLM", **keys: Any) -> EngineReading:
    return read(drafter(**keys), engine, target(architecture), parse_serve_args(engine, arguments))[0]


def test_one_step_turns_sixteen_draft_tokens_into_two() -> None:
    reading = served("sglang==0.5.23", SEED)
    assert reading.asked["speculative_num_draft_tokens"] == 16
    assert reading.value("serve.draft_tokens") == 2
    assert "overwritten" in reading.get("serve.draft_tokens").rule


def test_the_algorithm_of_eagle_one_skips_fc_and_takes_the_targets_head() -> None:
    reading = served("sglang==0.5.23", SEED.replace("EAGLE3", "EAGLE"), eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 3, 5]})
    assert reading.value("hidden_states.boundaries") == ["final_norm"]
    assert (reading.value("fc.applied"), reading.value("lm_head.used"), reading.value("vocab.present")) == (False, "target", False)
    assert reading.outcome is Outcome.OK


def test_unset_numbers_are_chosen_by_the_target_class() -> None:
    plain = "--speculative-algorithm EAGLE3 --speculative-draft-model-path /d"
    numbers = ("serve.steps", "serve.topk", "serve.draft_tokens")
    assert [served("sglang", plain).value(n) for n in numbers] == [5, 4, 8]
    assert [served("sglang", plain, "Qwen3ForCausalLM").value(n) for n in numbers] == [3, 1, 4]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ("--speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-num-steps 3", Outcome.ERROR_AT_LOAD),
        ("--speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-eagle-topk 1", Outcome.ERROR_AT_LOAD),
        ("--speculative-algorithm EAGLE3", Outcome.ERROR_AT_LOAD),
        (SEED + " --speculative-use-rejection-sampling", Outcome.ERROR_AT_LOAD),
        (SEED + " --context-length 8192", Outcome.ERROR_AT_LOAD),
        (f"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 python -m sglang.launch_server {SEED} --context-length 8192", Outcome.OK),
        (SEED.replace("topk 1", "topk 4").replace("tokens 16", "tokens 64"), Outcome.ERROR_AT_FIRST_REQUEST),
        (SEED, Outcome.OK),
    ],
)
def test_flags_that_stop_sglang(arguments: str, outcome: Outcome) -> None:
    assert served("sglang==0.5.23", arguments).outcome is outcome


def test_a_command_without_speculation_uses_no_drafter() -> None:
    assert served("sglang", "python -m sglang.launch_server --model-path /t").value("serve.algorithm") is None
    reading = served("vllm", "vllm serve /t --max-model-len 4k")
    assert (reading.value("serve.method"), reading.value("serve.max_model_len"), reading.outcome) == (None, 4000, Outcome.OK)


def test_vllm_takes_json_and_dotted_flags() -> None:
    for arguments in (
        """vllm serve /t --speculative-config '{"method": "eagle3", "model": "/d", "num_speculative_tokens": 4}'""",
        "vllm serve /t --speculative-config.method eagle3 --speculative_config.model /d --speculative-config.num_speculative_tokens=4",
    ):
        reading = served("vllm[v1]==0.32.0", arguments)
        assert (reading.value("serve.method"), reading.value("serve.draft_tokens")) == ("eagle3", 4)


def test_a_speculators_folder_served_as_the_model_brings_its_token_count() -> None:
    keys: dict[str, Any] = dict.fromkeys(config(), ...) | {
        "speculators_model_type": "eagle3",
        "speculators_config": {"proposal_methods": [{"speculative_tokens": 7}]},
        "transformer_layer_config": config(draft_vocab_size=...),
        "draft_vocab_size": 128,
    }
    reading = served("vllm[v1]==0.32.0", "vllm serve /models/drafter/", **keys)
    assert (reading.value("serve.method"), reading.value("serve.draft_tokens")) == ("eagle3", 7)


SCRIPT = """#!/bin/bash
# vllm serve /other --speculative-config '{}'
DRAFT="/models/draft"
export STEPS=5
python -m sglang.launch_server \\
    --model-path /t --speculative-algorithm EAGLE3 \\
    --speculative-draft-model-path ${DRAFT}/v1 --speculative-num-steps $STEPS \\
    --speculative-eagle-topk ${TOPK:-1} 2>&1 | tee log.txt
"""
COMPOSE = """services:
  web:
    image: nginx
  llm:
    image: lmsysorg/sglang:latest
    command: >
      python3 -m sglang.launch_server --model-path /t --speculative-algorithm EAGLE3
      --speculative-draft-model-path /models/draft/v1 --speculative-num-steps 5 --speculative-eagle-topk 1
"""
MANIFEST = """apiVersion: v1
kind: Service
---
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: engine
          command: [python3, -m, sglang.launch_server]
          args: ["--model-path", "/t", "--speculative-algorithm=EAGLE3", "--speculative-draft-model-path", "/models/draft/v1",
                 "--speculative-num-steps", "5", "--speculative-eagle-topk", "1"]
"""
VALUES = """speculative-algorithm: EAGLE3
speculative-draft-model-path: /models/draft/v1
speculative-num-steps: 5
speculative-eagle-topk: 1
"""


@pytest.mark.parametrize(("name", "text"), [("run.sh", SCRIPT), ("compose.yaml", COMPOSE), ("k8s.yml", MANIFEST), ("values.yaml", VALUES)])
def test_files_that_hold_a_command(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    flags = parse_serve_args("sglang==0.5.23", str(tmp_path / name))
    assert flags["speculative_draft_model_path"] == "/models/draft/v1"
    assert (flags["speculative_algorithm"], flags["speculative_num_steps"], flags["speculative_eagle_topk"]) == ("EAGLE3", 5, 1)
    assert not any("tee" in str(v) for v in flags.values())


def test_a_file_without_a_command_for_the_engine_says_so(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {web: {image: nginx, command: serve --port 80}}\n")
    with pytest.raises(UserError) as caught:
        parse_serve_args("sglang", str(tmp_path / "compose.yaml"))
    assert caught.value.rule == "flags.no-command"


def _script(repeated: int, names: str) -> str:
    """Each variable is the one before it, so many times over."""
    lines = [f"{name}={f'${before}' * repeated}" for before, name in pairwise(names)]
    return "\n".join([f"{names[0]}=xyz", *lines, f"python -m sglang.launch_server --speculative-algorithm EAGLE3 --model ${names[-1]}"])


def test_variables_that_grow_beyond_measure_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(_script(100, "ABCDEF"))
    with pytest.raises(LimitExceeded) as caught:
        parse_serve_args("sglang", str(tmp_path / "run.sh"))
    assert caught.value.limit == "shell_characters"
    (tmp_path / "run.sh").write_text("A=$B$B\nB=$A$A\n" + _script(2, "CD").replace("$D", "$A"))
    with pytest.raises(LimitExceeded):
        command_of_file(tmp_path / "run.sh", "sglang", limits=DEFAULT_LIMITS.lowered(shell_characters=100))
    (tmp_path / "run.sh").write_text(_script(3, "ABC"))
    assert parse_serve_args("sglang", str(tmp_path / "run.sh"))["model_path"] == "xyz" * 9


@pytest.mark.parametrize("text", ["--speculative-config '{", "--model 'x", "vllm serve /t --speculative-config {bad}"])
def test_what_cannot_be_read_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_serve_args("vllm", text)
    assert caught.value.rule == "flags.unreadable"


@pytest.mark.parametrize(
    "text",
    ["--max-model-len " + "9" * 5000, "--max-model-len " + "9" * 5000 + "k", "--temperature " + "9" * 400 + ".0", "--seed -" + "1" * 30],
)
def test_numbers_that_no_engine_takes(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_serve_args("vllm", text)
    assert caught.value.rule == "flags.unreadable"
    assert len(caught.value.message) < 300


def test_numbers_and_units_are_of_ascii_digits() -> None:
    assert parse_serve_args("vllm", "--max-model-len ²k")["max_model_len"] == "²k"
    assert parse_serve_args("vllm", "--max-model-len ٣")["max_model_len"] == "٣"
    assert parse_serve_args("vllm", "--max-model-len 2k")["max_model_len"] == 2000
    assert parse_serve_args("vllm", "--seed 18446744073709551615")["seed"] == 2**64 - 1


@pytest.mark.parametrize("version", ["9" * 5000, "0." + "1" * 5000, "0." * 5000 + "1", "٣.1"])
def test_a_version_that_is_none(version: str) -> None:
    assert parse_version(version) is None
    with pytest.raises(UserError):
        served(f"vllm=={version}", "--model /t")
    assert parse_version("0.5.13.post1") == (0, 5, 13)


@given(st.lists(st.text(alphabet="-=abc1.{}[]\"' $|", max_size=8), max_size=8))
def test_any_words_are_flags_or_a_usage_error(words: list[str]) -> None:
    for engine in ("sglang", "vllm", "llama.cpp"):
        with suppress(UsageError):
            assert all(isinstance(k, str) for k in flags_of(engine, words))
