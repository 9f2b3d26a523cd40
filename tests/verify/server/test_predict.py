"""Predicted acceptance: over the samples, and over the server's own answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.findings import Status
from contract.reporting import Report
from eagle3_contract.verify.acceptance import Acceptance, chain
from eagle3_contract.verify.engine_runs.definitions import Counts
from eagle3_contract.verify.figures import PathFigures
from eagle3_contract.verify.server.facts import ServerFacts
from eagle3_contract.verify.server.predict import Prediction, answered, predicted_checks
from verify.server.conftest import DEMO, Case, broken, one
from verify.server.imitations import ANSWERS, Sglang

Run = Callable[..., Report]
CHAIN = ServerFacts(engine="sglang", version="0.5.23", steps=3, topk=1)
TOKENS = st.lists(st.integers(0, 1), min_size=2, max_size=24)


@given(TOKENS, st.integers(1, 4), st.data())
def test_rounds_of_an_answer(tokens: list[int], steps: int, data: st.DataObject) -> None:
    """Against an engine that drafts and verifies token by token, and against ``chain``, which leaves the cut round out."""
    drafts = [data.draw(st.lists(st.integers(0, 1), min_size=len(tokens) - 1, max_size=len(tokens) - 1)) for _ in range(steps)]
    start = data.draw(st.integers(0, len(tokens) - 1))
    at, rounds, accepted = start + 2, 0, 0  # the answer's first token stands at start + 1
    while at < len(tokens):
        rounds, row, depth = rounds + 1, at - 2, 0
        while depth < steps and at < len(tokens) and drafts[depth][row] == tokens[at]:
            at, depth, accepted = at + 1, depth + 1, accepted + 1
        at += 1  # the bonus token
    found = answered(tokens, drafts, start)
    assert found == Acceptance(rounds, accepted)
    whole = chain(tokens, drafts, start=start)
    assert whole.rounds <= found.rounds <= whole.rounds + steps
    assert found.rounds + found.accepted >= len(tokens) - start - 2


def test_the_recorded_answers_are_predicted_round_by_round(case: Case, run: Run) -> None:
    """The real engine's figures, from the drafter, the target and the tokens alone."""
    report = run(case, Sglang(), target=str(DEMO / "target"))
    assert (report.exit_code, broken(report)) == (0, {})
    predicted, measured = report.measurements["training_path"]["per_sample"], report.measurements["server"]["per_request"]
    assert len(predicted) == len(ANSWERS)
    for name, figures in predicted.items():
        rounds, accepted = measured[name]["rounds"], measured[name]["accepted"]
        assert (figures["rounds"], figures["accepted_length"]) == (rounds, pytest.approx(1 + accepted / rounds)), name
    check = one(report, "server.predicted")
    assert (check.status, check.expected, check.evidence["same_text"]) == (Status.PASSED, check.actual, True)


def test_a_few_drafts_less_than_predicted_are_found_above_the_floor(case: Case, run: Run) -> None:
    """What a drafter fed one layer early lost on the real vLLM: 2.276 -> 1.985, far above the floor of 1.4."""
    server = Sglang()
    server.weaker = lambda n: round(n * 0.86)
    report = run(case, server, target=str(DEMO / "target"))
    assert broken(report) == {"server.predicted": Status.FAILED}
    assert one(report, "acceptance.floor").status is Status.PASSED


def test_samples_predict_without_the_target(case: Case, run: Run) -> None:
    report = run(case, Sglang(), samples=str(case.folder / "samples"), target=str(DEMO / "target" / "config.json"))
    # The demo drafter takes the target's embedding, which a config.json does not hold.
    assert one(report, "server.predicted").status is Status.UNKNOWN
    report = run(case, Sglang(), samples=str(case.folder / "samples"), target=str(DEMO / "target"))
    check = one(report, "server.predicted")
    assert (check.status, check.evidence["same_text"], check.evidence["pairs"]) == (Status.PASSED, False, 8)
    server = Sglang()
    server.weaker = lambda n: n // 8
    report = run(case, server, samples=str(case.folder / "samples"), target=str(DEMO / "target"))
    assert broken(report) == {"acceptance.floor": Status.FAILED, "server.predicted": Status.FAILED}


def test_a_server_that_shows_no_tokens_is_not_predicted(case: Case, run: Run) -> None:
    server = Sglang()
    server.answers = [{k: v for k, v in a.items() if k != "output_ids"} for a in server.answers]
    report = run(case, server, target=str(DEMO / "target"))
    check = one(report, "server.predicted")
    assert (report.exit_code, check.status, check.required) == (0, Status.UNKNOWN, False)


def prediction(*parts: tuple[int, int], drafts: int = 3) -> Prediction:
    figures = PathFigures(drafts, drafts)
    for index, (rounds, accepted) in enumerate(parts):
        figures.take(f"p{index}", Acceptance(rounds, accepted), None)
    return Prediction(figures=figures, same_text=True)


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        ([(20, 30), (30, 30), (25, 40)], Status.PASSED),
        ([(20, 40), (30, 40), (25, 50)], Status.PASSED),
        ([(22, 28), (34, 26), (31, 34)], Status.FAILED),
        ([(200, 299), (300, 299), (250, 399)], Status.PASSED),  # below, in every text, by less than matters
    ],
)
def test_a_difference_that_counts(measured: list[tuple[int, int]], status: Status) -> None:
    scale = 10 if measured[0][0] == 200 else 1
    made = prediction(*((r * scale, a * scale) for r, a in ((20, 30), (30, 30), (25, 40))))
    counts = {f"p{i}": Counts(rounds=r, accepted=a) for i, (r, a) in enumerate(measured)}
    (check,) = predicted_checks(made, counts, CHAIN)
    assert check.status is status
    assert check.evidence["pairs"] == 3


def test_answers_to_other_prompts_are_compared_as_wholes() -> None:
    made = prediction((20, 30), (30, 30), (25, 40))
    (low,) = predicted_checks(made, {"other": Counts(rounds=50, accepted=10)}, CHAIN)
    (right,) = predicted_checks(made, {"other": Counts(rounds=50, accepted=66)}, CHAIN)
    assert (low.status, right.status) == (Status.FAILED, Status.PASSED)


def test_what_cannot_be_compared_is_not() -> None:
    made = prediction((20, 30), (30, 30), (25, 40))
    for found in (
        predicted_checks(made, {"p0": Counts(rounds=5, accepted=5)}, replace(CHAIN, steps=5)),
        predicted_checks(made, {"p0": Counts(rounds=5, accepted=5)}, replace(CHAIN, topk=4)),
        predicted_checks(made, {}, CHAIN),
        predicted_checks(prediction((20, 30)), {"p0": Counts(rounds=5, accepted=5)}, CHAIN),
    ):
        (check,) = found
        assert (check.status, check.required) == (Status.UNKNOWN, False)
