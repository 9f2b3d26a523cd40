"""Every engine's figures of one simulated service convert into one number."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputRejected
from eagle3_contract.verify.engine_runs import definitions as d
from eagle3_contract.verify.engine_runs.definitions import Counts


@dataclass(frozen=True)
class Served:
    """One request: accepted drafts of each verify step, and how many tokens max_tokens cut off the last one."""

    accepted: tuple[int, ...]
    cut: int

    @property
    def completion_tokens(self) -> int:
        return 1 + sum(a + 1 for a in self.accepted) - self.cut


DRAFTS = 4
REQUESTS = st.lists(
    st.lists(st.integers(0, DRAFTS), min_size=1, max_size=12).flatmap(
        lambda steps: st.builds(Served, st.just(tuple(steps)), st.integers(0, steps[-1]))
    ),
    min_size=1,
    max_size=5,
)


def truth(requests: list[Served]) -> Counts:
    each = [a for r in requests for a in r.accepted]
    return d.from_rounds(each, drafted=DRAFTS * len(each))


def vllm_page(requests: list[Served]) -> list[d.MetricSample]:
    """As vLLM counts: each verify step as it was verified."""
    each = [a for r in requests for a in r.accepted]
    labels = {"engine": "0", "model_name": "tiny"}
    page = [
        ("vllm:spec_decode_num_drafts_total", labels, float(len(each))),
        ("vllm:spec_decode_num_draft_tokens_total", labels, float(DRAFTS * len(each))),
        ("vllm:spec_decode_num_accepted_tokens_total", labels, float(sum(each))),
        ("vllm:spec_decode_num_accepted_tokens_created", labels, 1.7e9),
    ]
    return page + [
        ("vllm:spec_decode_num_accepted_tokens_per_pos_total", {**labels, "position": str(i)}, float(sum(a > i for a in each)))
        for i in range(DRAFTS)
    ]


def sglang_meta(request: Served) -> dict[str, object]:
    """As SGLang's tokenizer manager writes it."""
    steps = len(request.accepted)
    histogram = [0] * (max(request.accepted) + 1)
    for a in request.accepted:
        histogram[a] += 1
    return {
        "completion_tokens": request.completion_tokens,
        "spec_accept_length": request.completion_tokens / steps,
        "spec_num_correct_drafts": sum(request.accepted),
        "spec_num_proposed_drafts": steps * DRAFTS,
        "spec_verify_ct": steps,
        "spec_correct_drafts_histogram": histogram,
    }


@given(REQUESTS)
def test_all_exact_sources_agree(requests: list[Served]) -> None:
    want = truth(requests)
    vllm = d.from_vllm_metrics(vllm_page(requests), model="tiny")
    metas = [d.from_sglang_meta(sglang_meta(r)) for r in requests]
    assert vllm is not None
    sglang = Counts(rounds=0, accepted=0, drafted=0, per_position=())
    for meta in metas:
        assert meta is not None
        sglang = sglang + meta
    for got in (vllm, sglang):
        assert (got.rounds, got.accepted, got.drafted, got.length) == (want.rounds, want.accepted, want.drafted, want.length)
        assert got.contradictions == ()
        deepest = len(want.per_position or ())
        assert (got.per_position or ())[:deepest] == want.per_position
        assert not any((got.per_position or ())[deepest:])


@given(REQUESTS)
def test_token_counters_hold_the_true_length_between_their_bounds(requests: list[Served]) -> None:
    page = [
        ("sglang:generation_tokens_total", {"is_streaming": "false"}, float(sum(r.completion_tokens for r in requests))),
        ("sglang:num_requests_total", {"is_streaming": "false"}, float(len(requests))),
        ("sglang:spec_verify_calls_total", {}, float(sum(len(r.accepted) for r in requests))),
    ]
    got = d.from_sglang_metrics(page, drafts=DRAFTS)
    assert got is not None
    want = truth(requests).length
    assert got.length <= want + 1e-12 <= got.longest + 1e-9
    if not any(r.cut for r in requests):
        assert got.length == pytest.approx(want)


@given(REQUESTS)
def test_the_prefill_token_is_taken_out(requests: list[Served]) -> None:
    for r in requests:
        steps = len(r.accepted)
        biased = r.completion_tokens / steps
        assert d.without_prefill(biased, steps) == pytest.approx(truth([r]).length - r.cut / steps)


def test_the_recorded_bias_of_sglang() -> None:
    """Eight tokens, no draft accepted: SGLang said 1.143."""
    assert round(8 / 7, 3) == 1.143
    assert d.without_prefill(8 / 7, 7) == pytest.approx(1.0)
    assert math.isnan(d.without_prefill(0.0, 0))


def test_the_recorded_page_of_vllm() -> None:
    """A page as vLLM 0.32.0 wrote it: 11 steps of 3 drafts, 4 accepted, all at position 0."""
    text = """
vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 11.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="tiny"} 33.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="tiny"} 4.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="0"} 4.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="2"} 0.0
"""
    page = [
        (m[1], dict(re.findall(r'(\w+)="([^"]*)"', m[2])), float(m[3])) for m in re.finditer(r"^(\S+)\{(.*)\} (\S+)$", text, re.MULTILINE)
    ]
    got = d.from_vllm_metrics(page)
    assert got == Counts(rounds=11, accepted=4, drafted=33, per_position=(4, 0, 0))
    assert got is not None
    assert got.length == pytest.approx(1 + 4 / 11)
    assert got.rate == pytest.approx(4 / 33)
    assert got.position_rates == (4 / 11, 0.0, 0.0)
    assert d.from_vllm_metrics(page, model="another") is None


@given(REQUESTS, REQUESTS)
def test_difference_of_two_readings(before: list[Served], more: list[Served]) -> None:
    first, second = d.from_vllm_metrics(vllm_page(before)), d.from_vllm_metrics(vllm_page(before + more))
    assert first is not None
    assert second is not None
    assert d.difference(first, second) == d.from_vllm_metrics(vllm_page(more))


def test_restarted_server_is_refused() -> None:
    with pytest.raises(InputRejected, match="negative") as error:
        d.difference(Counts(rounds=10, accepted=5, drafted=30), Counts(rounds=2, accepted=1, drafted=6))
    assert error.value.rule == "acceptance.counters"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Counts(rounds=2, accepted=7, drafted=6), "7 drafts were accepted and 6 proposed"),
        (Counts(rounds=0, accepted=1), "in no verify step"),
        (Counts(rounds=3, accepted=3, per_position=(1, 1)), "add up to 2"),
        (Counts(rounds=3, accepted=3, per_position=(1, 2)), "later position"),
        (Counts(rounds=1, accepted=2, per_position=(2,)), "later position"),
    ],
)
def test_impossible_counts_are_named(counts: Counts, words: str) -> None:
    assert any(words in text for text in counts.contradictions)


@given(st.integers(1, 50), st.integers(1, 50), st.floats(1, 5), st.floats(1, 5))
def test_running_average(first: int, later: int, a: float, b: float) -> None:
    total = first + later
    average = (a * first + b * later) / total
    assert d.average_between((a, first), (average, total)) == pytest.approx(b)
    assert d.average_between(None, (a, first)) == pytest.approx(a)
    assert math.isnan(d.average_between((a, first), (a, first)))


@pytest.mark.parametrize("value", [math.nan, math.inf, 1.5])
def test_a_counter_is_a_whole_number(value: float) -> None:
    with pytest.raises(InputRejected, match="counter"):
        d.from_vllm(value, 3.0, 1.0)


@pytest.mark.parametrize("meta", [{}, {"spec_verify_ct": 3}, {"spec_verify_ct": True, "spec_num_correct_drafts": 1}])
def test_meta_without_speculation_is_none(meta: dict[str, object]) -> None:
    assert d.from_sglang_meta(meta) is None


def test_no_step_is_no_length() -> None:
    assert math.isnan(Counts(rounds=0, accepted=0).length)
    assert Counts(rounds=0, accepted=0, per_position=()).position_rates is None
    assert d.from_sglang_metrics([("sglang:num_requests_total", {}, 1.0)], drafts=3) is None
