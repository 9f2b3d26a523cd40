"""The small functions that rules are built from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factory import Tensor, pair
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import InputRejected
from contract.findings import ExitCode, Status
from eagle3_contract.check.compare import said, same
from eagle3_contract.check.config_view import ConfigView, Layout
from eagle3_contract.check.needed import UNKNOWN, fits, shape_text
from eagle3_contract.check.open_target import read_target
from eagle3_contract.check.rope import rope_type
from eagle3_contract.check.run import check_spec

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)


@given(scalars | st.lists(scalars, max_size=3))
def test_same_is_reflexive(value: Any) -> None:
    assert same(value, value)


@given(scalars, scalars)
def test_same_is_symmetric(a: Any, b: Any) -> None:
    assert same(a, b) == same(b, a)


@pytest.mark.parametrize(
    ("a", "b"), [(True, 1), (False, 0), (0, None), ("1", 1), ([1], [1, 2]), ([1], 1), (1.0, 1.1), ({}, []), ([True], [1])]
)
def test_not_the_same(a: Any, b: Any) -> None:
    assert not same(a, b)


def test_nan_is_nothing() -> None:
    assert not same(math.nan, math.nan)


def test_same_without_surprises() -> None:
    assert same(10000, 10000.0)
    assert same("SiLU", "silu")
    assert same((1, 2), [1, 2])


def test_said() -> None:
    assert said([None, True, {"a": 1}, ""]) == '[null, true, {a: 1}, ""]'


def test_unknown_size_survives_arithmetic() -> None:
    assert (2 * UNKNOWN) is UNKNOWN
    assert (UNKNOWN * 3 + 1) is UNKNOWN
    assert fits((UNKNOWN, 3), (7, 3))
    assert not fits((UNKNOWN, 3), (7, 4))
    assert not fits((UNKNOWN,), (7, 4))
    assert shape_text((UNKNOWN, 3)) == "[?, 3]"


LAYOUTS: list[tuple[dict[str, Any], Layout]] = [
    ({"hidden_size": 4}, Layout.FLAT),
    ({"hidden_size": 4, "eagle_config": {}}, Layout.NESTED),
    ({"hidden_size": 4, "eagle_config": None}, Layout.FLAT),
    ({"transformer_layer_config": {"hidden_size": 4}}, Layout.SPECULATORS),
    ({"speculators_model_type": "eagle3", "hidden_size": 4}, Layout.SPECULATORS),
]


@pytest.mark.parametrize(("config", "layout"), LAYOUTS)
def test_layouts(config: dict[str, Any], layout: Layout) -> None:
    view = ConfigView(config)
    assert view.layout is layout
    assert [s.value for s in view.decoder("hidden_size")] == [4]


def test_nested_key_comes_first() -> None:
    view = ConfigView({"norm_before_fc": False, "eagle_config": {"norm_before_fc": True}})
    assert [(s.key, s.value) for s in view.eagle("norm_before_fc")] == [("eagle_config.norm_before_fc", True), ("norm_before_fc", False)]


@pytest.mark.parametrize(
    ("holder", "kind"),
    [
        ({}, "default"),
        ({"type": "linear"}, "linear"),
        ({"rope_type": "yarn", "type": "linear"}, "yarn"),
        ({"rope_type": None}, "default"),
        ({"rope_type": "default", "mrope_section": [24, 20, 20]}, "mrope"),
    ],
)
def test_rope_type(holder: dict[str, Any], kind: str) -> None:
    assert rope_type(holder) == kind


def test_target_of_a_multimodal_model(tmp_path: Path) -> None:
    config = {"model_type": "kimi_k25", "text_config": {"num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = read_target(tmp_path)
    assert (facts.model_type, facts.layers, facts.hidden_size, facts.vocab_size) == ("kimi_k25", 61, 7168, 163840)
    assert facts.tokenizer_sha256 is None


def test_target_with_sizes_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": 3, "num_hidden_layers": True, "hidden_size": -1, "vocab_size": "x"}))
    facts = read_target(tmp_path / "config.json")
    assert (facts.model_type, facts.layers, facts.hidden_size, facts.vocab_size) == (None, None, None, None)


def test_target_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputRejected):
        read_target(tmp_path / "config.json")


@given(
    targets=st.lists(st.integers(0, 95), min_size=24, max_size=24, unique=True),
    ordered=st.booleans(),
    zeros=st.integers(0, 24),
    mask=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_true_offset_map_is_kept(
    targets: list[int], ordered: bool, zeros: int, mask: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Unsorted, partly negative, with a run of zeros at the start: an offset map of unique ids in range never alarms anyone."""
    head = list(range(zeros))
    chosen = head + [t for t in (sorted(targets) if ordered else targets) if t >= zeros or not ordered]
    chosen = list(dict.fromkeys(chosen))[:24]
    chosen += [t for t in range(96) if t not in chosen][: 24 - len(chosen)]
    made = pair(t2d=mask)
    made.tensors["d2t"] = Tensor(np.array(chosen) - np.arange(24), "int64")
    if mask:
        marks = np.zeros(96, dtype=bool)
        marks[chosen] = True
        made.tensors["t2d"] = Tensor(marks, "bool")
    report = check_spec(made.write(tmp_path_factory.mktemp("pair")))
    spoken = [c for c in report.checks if c.rule.startswith("vocab.") and c.status is Status.FAILED]
    if np.array_equal(chosen, np.arange(24)):
        assert {c.rule for c in spoken} == {"vocab.map-kind"}
    else:
        assert not spoken, [c.message for c in spoken]
        assert report.exit_code in (ExitCode.KEPT, ExitCode.UNKNOWN)
        if report.exit_code is ExitCode.UNKNOWN:
            assert any(c.rule == "vocab.map-kind" and "could be" in c.message for c in report.checks)
