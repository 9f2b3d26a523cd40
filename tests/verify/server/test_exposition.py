"""Reading pages of metrics."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from contract.errors import InputRejected
from eagle3_contract.verify.server.exposition import parse_metrics, total
from verify.server.imitations import METRICS

NAME = "vllm:x_total"


def test_a_real_page_is_read_as_the_client_library_reads_it() -> None:
    ours = parse_metrics(METRICS, "vllm:", what="page")
    theirs = [s for family in text_string_to_metric_families(METRICS) for s in family.samples if s.name.startswith("vllm:")]
    assert len(ours) > 30
    assert [(n, dict(labels), v) for n, labels, v in ours] == [(s.name, s.labels, s.value) for s in theirs]


@given(st.dictionaries(st.text(max_size=8), st.integers(0, 10**6), max_size=4))
def test_every_label_comes_back(values: dict[str, int]) -> None:
    registry = CollectorRegistry()
    counter = Counter("vllm:x", 'help "\\ x', ["model_name"], registry=registry)
    for label, value in values.items():
        counter.labels(label).inc(value)
    page = generate_latest(registry).decode()
    found = parse_metrics(page, NAME, what="page")
    assert {labels["model_name"]: v for _, labels, v in found} == values
    assert total(found, NAME) == (sum(values.values()) if values else None)


@pytest.mark.parametrize(
    "line",
    [
        "vllm:x_total",
        "vllm:x_total{ 1",
        'vllm:x_total{a="b} 1',
        "vllm:x_total{a=b} 1",
        'vllm:x_total{a="b",a="c"} 1',
        "vllm:x_total one",
        "vllm:x_total 1 2 3",
        'vllm:x_total{a="b"} 1\nvllm:x_total{a="b"} 2',
    ],
)
def test_a_line_that_is_no_sample(line: str) -> None:
    with pytest.raises(InputRejected) as caught:
        parse_metrics(f"# HELP x y\nother{{ stuff\n{line}\n", "vllm:", what="page")
    assert caught.value.rule == "server.answer"


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1.5", "1e300", "9007199254740994"])
def test_what_is_no_count(value: str) -> None:
    samples = parse_metrics(f"{NAME} {value}\n", "vllm:", what="page")
    with pytest.raises(InputRejected) as caught:
        total(samples, NAME)
    assert caught.value.rule == "server.counters"


def test_labels_choose_and_timestamps_are_left_out() -> None:
    page = f'{NAME}{{engine="0"}} 1 1700000000\n{NAME}{{engine="1"}} 2\r\n{NAME}{{engine="1",}} 4\n'
    with pytest.raises(InputRejected):
        parse_metrics(page, "vllm:", what="page")
    found = parse_metrics(page.replace('"1",', '"2",'), "vllm:", what="page")
    assert (total(found, NAME), total(found, NAME, {"engine": "2"}), total(found, "vllm:y"), total(found, NAME, {"a": ""})) == (
        7,
        4,
        None,
        None,
    )


@given(st.text(max_size=60).map(lambda t: "vllm:x" + t) | st.text(max_size=60))
def test_any_text_is_read_or_refused(page: str) -> None:
    try:
        for _, _, value in parse_metrics(page, "vllm:", what="page"):
            assert isinstance(value, float) or math.isnan(value)
    except InputRejected:
        pass
