"""Flags as a bundle records them are flags as a reading takes them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.readings.recorded_flags import recorded_flags
from eagle3_contract.readings.serve_args import parse_serve_args

VALUES = st.recursive(
    st.booleans() | st.integers(-9, 10**6) | st.sampled_from(["auto", "bfloat16"]), lambda v: st.dictionaries(st.sampled_from("abc"), v)
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z_]{2,9}", fullmatch=True).filter(lambda n: n != "build"), VALUES, max_size=5))
def test_as_either_engine_writes_them(flags: dict[str, object]) -> None:
    """vLLM's are JSON, or text as it is; SGLang's are what Python prints of them."""
    as_json = {name: v if isinstance(v, str) else json.dumps(v) for name, v in flags.items()}
    assert recorded_flags(as_json) == flags
    plain = {name: v for name, v in flags.items() if not isinstance(v, dict)}
    assert recorded_flags({name: str(v) for name, v in plain.items()}) == plain


def test_what_was_not_given_is_not_there() -> None:
    assert recorded_flags({"a_flag": "None", "b_flag": "null", "build": "0.32.0+cpu", "cached: block_size": "32"}) == {}


def test_as_a_command_line_gives_them() -> None:
    given = parse_serve_args("sglang", "--json-model-override-args '{\"rope_theta\": 5e5}' --speculative-draft-window-size 64")
    recorded = recorded_flags({"json_model_override_args": '{"rope_theta": 500000.0}', "speculative_draft_window_size": "64"})
    assert recorded == {name: given[name] for name in recorded}


def test_hostile_values_are_text() -> None:
    deep = "[" * 100_000
    assert recorded_flags({"a_flag": deep, "b_flag": '{"a": 1, "a": 2}', "c_flag": "NaN"}) == {
        "a_flag": deep, "b_flag": '{"a": 1, "a": 2}', "c_flag": "NaN",
    }  # fmt: skip
