"""Answers typed by the contract's own Structs, the text that is written, and what becomes of inputs that are hostile or broken."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected, UsageError
from contract.findings import ExitCode, Status
from contract.source import parse_yaml
from contract.source.nodes import to_plain
from contract.structs import load_typed
from eagle3_contract.engines.target import Target
from eagle3_contract.init.answers import read_answers
from eagle3_contract.init.render import contract_text, flow, scalar
from eagle3_contract.kind import KIND
from eagle3_contract.model.fields import field_types, nearest
from eagle3_contract.model.fingerprint import fingerprint, fingerprint_rows
from eagle3_contract.model.spec import Contract
from tests.init.scene import drafter, edit_json, neutral, run

ANSWERED = {"hidden_states.boundaries": "[2, 4, 5]", "target.layers": "8"}


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("hidden_states.boundaries", "[0, 3, final_norm]", [0, 3, "final_norm"]),
        ("wiring.window", "null", None),
        ("wiring.rope.theta", "1e6", 1e6),
        ("wiring.rope.scaling", "{factor: 8.0}", {"factor": 8.0}),
        ("wiring.final_norm", "false", False),
        ("target.revision", "1234567", "1234567"),
        ("target.id", "org/Model-7B", "org/Model-7B"),
        ("training.version", "0.3.0", "0.3.0"),
        ("training.metrics.accuracy", "[0.747]", [0.747]),
        ("tensors.fc.weight.dtype", "bfloat16", "bfloat16"),
        ("acceptance.baselines", "[{engine: sglang, value: 1.8, source: a log}]", [{"engine": "sglang", "value": 1.8, "source": "a log"}]),
    ],
)
def test_an_answer_has_the_type_of_its_field(path: str, text: str, value: Any) -> None:
    (answer,) = read_answers({path: text}).values()
    assert (answer.known, answer.value, answer.evidence) == (True, value, "declared")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("wiring.final_norm", "yes", "true or false"),
        ("wiring.feedback", "prenorm", "post_norm, pre_norm"),
        ("hidden_states.boundaries", "2, 4", "list"),
        ("target.layers", "0", ">= 1"),
        ("target.fingerprint", "abc", "sha256"),
        ("wiring.heads", "[", "--set wiring.heads"),
    ],
)
def test_another_type_is_refused_with_what_is_expected(path: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_answers({path: text})
    assert refused.value.rule == "init.bad-answer"
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("wiring.feed_back", "wiring.feedback"),
        ("boundaries", "hidden_states.boundaries"),
        ("hidden_state.boundaries", "hidden_states.boundaries"),
    ],
)
def test_a_misspelt_field_is_refused_with_the_nearest(path: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_answers({path: "1"})
    assert refused.value.rule == "init.unknown-field"
    assert meant in refused.value.fix


def test_an_answer_may_say_that_it_cannot_be_known() -> None:
    (answer,) = read_answers({"target.id": "{unknown: it is secret}"}).values()
    assert (answer.known, answer.reason) == (False, "it is secret")


def test_the_answer_to_each_open_question_closes_it(tmp_path: Path) -> None:
    place = drafter(tmp_path / "d", ids=(1, 3, 4))
    first = run(place)
    assert first.open() == {"hidden_states.boundaries", "target.layers"}
    assert first.report.exit_code is ExitCode.VIOLATED
    second = run(place, settings=ANSWERED)
    assert second.open() == set()
    assert second.report.exit_code is ExitCode.KEPT, second.messages()
    assert second.fact("hidden_states.boundaries").evidence == "declared"


def test_an_answer_against_a_tensor_is_a_contradiction_and_against_a_config_a_note(tmp_path: Path) -> None:
    place = drafter(tmp_path / "d")
    against = run(place, settings=ANSWERED | {"wiring.hidden_size": "64"})
    assert [c.where.key for c in against.failed("init.contradiction") if c.where is not None] == ["wiring.hidden_size"]
    assert against.value("wiring.hidden_size") == 32
    declared = run(place, settings=ANSWERED | {"wiring.rms_norm_eps": "1e-6"})
    assert declared.value("wiring.rms_norm_eps") == 1e-6
    assert "config says 1e-05" in str(declared.fact("wiring.rms_norm_eps").note)


def test_an_answer_about_the_target_is_held_against_the_target(tmp_path: Path, target_dir: Path) -> None:
    ran = run(drafter(tmp_path / "d"), target=str(target_dir), settings={"hidden_states.boundaries": "[2, 4, 5]", "target.layers": "9"})
    assert any(c.message.startswith("target.layers") for c in ran.failed("init.contradiction"))
    assert ran.value("target.layers") == 8


def test_every_field_is_written_and_what_is_not_known_says_why(tmp_path: Path) -> None:
    ran = run(drafter(tmp_path / "d"), settings=ANSWERED)
    tree = yaml.safe_load(ran.path.read_text())
    for path in field_types():
        at: Any = tree
        for part in path.split("."):
            at = at[part]
        if isinstance(at, dict) and "unknown" in at:
            assert len(at["unknown"]) > 5, path
    assert "sha256:" in tree["drafter"]["files"]["config.json"]


_TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")), max_size=40)
_SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4), max_leaves=12)


@given(_VALUES)
def test_what_is_written_reads_back(value: Any) -> None:
    read = to_plain(parse_yaml(f"value: {flow(value)}").root)["value"]
    assert read == value
    assert type(read) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_one_to_readers_of_yaml_1_1_too(value: float) -> None:
    read = yaml.safe_load(scalar(value))
    assert isinstance(read, float)
    assert math.isclose(read, value)


def test_sections_have_comments_and_statements_their_own_lines() -> None:
    text = contract_text(
        {"schema_version": 1, "vocab": {"map": {"value": "offset", "evidence": "measured", "note": "x" * 200}}}, ["one line"]
    )
    assert text.splitlines()[:3] == ["# yaml-language-server: $schema=contract.schema.json", "# one line", "schema_version: 1"]
    assert "  map:\n    value: offset\n" in text


def test_a_config_that_acts_on_a_reader_does_not(tmp_path: Path) -> None:
    place = drafter(tmp_path / "d")
    edit_json(place / "config.json", architectures=["Llama\u202eForCausalLM\x1b[2J"], hidden_act="silu\u2028x", modal_type="LLM")
    ran = run(place, settings=ANSWERED)
    text = ran.path.read_text()
    assert not any(c in text for c in "\u202e\x1b\u2028")
    load_typed(parse_yaml(text), Contract)
    assert (
        "wiring.architecture" in yaml.safe_load(text)["wiring"]["architecture"].get("unknown", "")
        or not ran.fact("wiring.architecture").known
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 2**70}, {"rms_norm_eps": -1.0}, {"max_position_embeddings": 2**63}, {"draft_vocab_size": "many"},
        {"rope_theta": [1]}, {"rope_scaling": {"rope_type": "no such rope", "factor": "big"}}, {"rope_scaling": 7},
        {"hidden_act": {"a": 1}},
        {"eagle_config": [1, 2]}, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ["a", None]}}, {"architectures": 3},
        {"tie_word_embeddings": "maybe"}, {"speculators_config": {"verifier": 3, "proposal_methods": {}}},
    ],
)  # fmt: skip
def test_whatever_a_config_holds_a_contract_comes_of_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    place = drafter(tmp_path / "d", ids=(1, 3, 4))
    edit_json(place / "config.json", **changes)
    ran = run(place, settings=ANSWERED)
    assert ran.path.is_file()
    assert [c.status for c in ran.report.checks if c.rule == "init.written"] == [Status.PASSED]


def test_samples_that_cannot_be_read_leave_no_contract(tmp_path: Path, target: Target) -> None:
    samples = neutral(tmp_path / "s", target, (2, 4, 5))
    (samples / "s1.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    ran = run(drafter(tmp_path / "d"), samples=str(samples), settings=ANSWERED)
    assert ran.report.exit_code is ExitCode.UNUSABLE
    assert not ran.path.exists()
    assert any("s1.safetensors" in c.message for c in ran.report.checks if c.rejected)


def test_pickles_need_the_opt_in(tmp_path: Path, target: Target) -> None:
    from tests.init.scene import list_of_states

    samples = list_of_states(tmp_path / "s", target, (2, 4, 5, 8))
    with pytest.raises(InputRejected) as refused:
        run(drafter(tmp_path / "d"), samples=str(samples), allow_pickle=False)
    assert refused.value.rule == "files.pickle-refused"


def test_samples_of_two_layouts_are_named(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = neutral(tmp_path / "s", target, (2, 4, 5))
    neutral(tmp_path / "t", target, (2, 4, 5, 6))
    (tmp_path / "t" / "s0.safetensors").rename(samples / "t0.safetensors")
    ran = run(drafter(tmp_path / "d"), samples=str(samples), target=str(target_dir))
    (check,) = ran.failed("init.samples-alike")
    assert "t0.safetensors stores 4 states" in check.message


def test_samples_that_name_other_states_than_they_hold(tmp_path: Path, target: Target, target_dir: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    samples = neutral(tmp_path / "s", target, (2, 4, 5))
    for path in samples.glob("*.safetensors"):
        with safe_open(path, "pt") as opened:
            metadata = opened.metadata() | {"boundaries": "[3, 5, 6]"}
        save_file(load_file(path), path, metadata)
    ran = run(drafter(tmp_path / "d", ids=(1, 3, 4)), samples=str(samples), target=str(target_dir))
    assert any("the samples say that they store [3, 5, 6], measured is [2, 4, 5]" in c.message for c in ran.failed("init.contradiction"))
    assert ran.value("hidden_states.boundaries") == [2, 4, 5]


def test_a_fingerprint_knows_the_weights_and_not_the_files(tmp_path: Path, target_dir: Path) -> None:
    from safetensors.torch import load_file, save_file

    from contract.files.checkpoint import Checkpoint

    whole = load_file(target_dir / "model.safetensors")
    names = sorted(whole)
    first, second = dict.fromkeys(names[::2]), dict.fromkeys(names[1::2])
    split = tmp_path / "split"
    split.mkdir()
    save_file({n: whole[n] for n in first}, split / "model-00001-of-00002.safetensors")
    save_file({n: whole[n] for n in second}, split / "model-00002-of-00002.safetensors")
    index = {"weight_map": {n: f"model-0000{1 if n in first else 2}-of-00002.safetensors" for n in names}}
    (split / "model.safetensors.index.json").write_text(json.dumps(index))
    mine = fingerprint(Checkpoint.open(target_dir).tensors)
    assert mine is not None
    assert mine == fingerprint(Checkpoint.open(split).tensors)
    for name, row in (("lm_head.weight", 95), ("model.norm.weight", 0), ("model.embed_tokens.weight", 0)):
        changed = dict(whole)
        changed[name] = changed[name].clone()
        changed[name][row] += 1
        other = tmp_path / name
        other.mkdir()
        save_file(changed, other / "model.safetensors")
        assert fingerprint(Checkpoint.open(other).tensors) != mine, name
    assert fingerprint({}) is None


@given(st.integers(1, 300_000))
def test_the_rows_of_a_fingerprint_span_the_table(rows: int) -> None:
    chosen = fingerprint_rows(rows)
    assert (len(chosen), chosen[0], chosen[-1]) == (64, 0, rows - 1)
    assert chosen == sorted(chosen)


def test_the_kind_offers_the_command() -> None:
    assert callable(KIND.init)
    assert {"init.open-question", "init.contradiction"} <= {r.id for r in KIND.rules()}
    assert nearest("wiring.rope.Theta")[0] == "wiring.rope.theta"
