"""Odd configs: an adapter answers, says unknown, or refuses by rule; it never fails otherwise, and never believes what is no value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import UserError
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers.base import choose, installed
from eagle3_contract.trainers.reading import TargetFacts
from tests.trainers.views import TINY, from_headers, peer, with_config, with_tensors

VIEWS = {
    "speculators": peer("speculators-0.9.0/default_0.9.0"),
    "modelopt": peer("modelopt-0.47.0/export_offline"),
    "angelslim": peer("angelslim-0.5.0/ckpt_full"),
    "eagle": peer("eagle-official/ckpt"),
    "specforge": from_headers("specforge-0.2.0/classic/export_sglang"),
    "torchspec": from_headers("torchspec/export_full_vllm"),
    "generic": from_headers("drafter-a"),
}
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.just(2**70), st.floats(allow_nan=True), st.text(max_size=4),
    st.lists(st.one_of(st.integers(-2, 9), st.none(), st.text(max_size=2)), max_size=4),
    st.dictionaries(
        st.sampled_from(["rope_type", "type", "factor", "rope_theta"]), st.one_of(st.none(), st.integers(), st.text(max_size=3)),
    ),
)  # fmt: skip


def keys(view: DrafterView) -> list[str]:
    found = []
    for key, value in view.config.items():
        found.append(key)
        if isinstance(value, dict):
            found += [f"{key}__{inner}" for inner in value]
    return found


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_odd_value_is_answered_left_open_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(VIEWS)))
    view = VIEWS[name]
    key = data.draw(st.sampled_from([*keys(view), "rope_parameters", "rope_scaling", "rope_theta", "eagle_config", "norm_output"]))
    view = with_config(view, **{key: data.draw(ODD)})
    target = data.draw(st.sampled_from([TINY, TargetFacts()]))
    try:
        reading = installed()[name].wiring(view, target)
        choose(view)
    except UserError as refused:
        outcome = refused.rule
    else:
        outcome = "read"
        assert all(fact.note if fact.known else fact.reason for fact in reading.facts.values())
    assert outcome == "read" or outcome.startswith("trainers.")


@settings(deadline=None)
@given(st.data())
def test_a_missing_tensor_is_left_open(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(VIEWS)))
    gone = data.draw(st.sets(st.sampled_from(sorted(VIEWS[name].tensors)), max_size=6))
    reading = installed()[name].wiring(with_tensors(VIEWS[name], drop=tuple(gone)), TINY)
    assert reading.trainer == name


@pytest.mark.parametrize("name", ["speculators", "specforge", "torchspec", "modelopt"])
@pytest.mark.parametrize("odd", ["1e6", -1.0, 0, True, [10000]])
def test_a_theta_that_is_no_number_is_not_replaced_by_the_default(name: str, odd: Any) -> None:
    view = VIEWS[name]
    change = {
        "speculators": {"transformer_layer_config__rope_parameters": {"rope_theta": odd, "rope_type": "default"}},
        "specforge": {"rope_parameters": {"rope_theta": odd, "rope_type": "default"}},
    }.get(name, {"rope_theta": odd})
    assert "wiring.rope.theta" in installed()[name].wiring(with_config(view, **change), TINY).unknown()


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_rope_scaling_that_is_no_mapping_is_not_taken_for_none(name: str) -> None:
    key = "transformer_layer_config__rope_scaling" if name == "speculators" else "rope_scaling"
    assert "wiring.rope.type" in installed()[name].wiring(with_config(VIEWS[name], **{key: "yarn"}), TINY).unknown()


def test_two_ropes_that_differ_leave_the_type_open() -> None:
    view = with_config(VIEWS["specforge"], rope_scaling={"rope_type": "linear", "factor": 2.0})
    assert "wiring.rope.type" in installed()["specforge"].wiring(view, TINY).unknown()
    agreeing = with_config(VIEWS["specforge"], rope_scaling={"rope_type": "default"})
    assert installed()["specforge"].wiring(agreeing, TINY).facts["wiring.rope.type"].value == "default"
