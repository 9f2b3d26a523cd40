"""The Prometheus text, read by the parser of the Prometheus client library."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from prometheus_client.parser import text_string_to_metric_families

from contract.findings import Status
from contract.report import render
from contract.report.escape import visible
from contract.reporting import Report
from report.samples import FAILED, HOSTILE, PASSED, REPORTS, report
from report.test_hostile import reports

HELP_OR_SAMPLE = re.compile(r"# (HELP [a-z_]+ [^\\\n]+|TYPE [a-z_]+ gauge)|contract_[a-z_]+\{.*\} -?[0-9.e+-]+")
SERVER = {
    "accepted_length": 2.25,
    "accepted_length_interval": [1.5, 2.75],
    "promised_length": 2.1,
    "rounds": 116,
    "position_acceptance": [0.5, 0.25, None],
}


def parsed(made: Report) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = render(made, "prometheus")
    assert text.endswith("\n")
    assert not [line for line in text.splitlines() if HELP_OR_SAMPLE.fullmatch(line) is None]
    families = list(text_string_to_metric_families(text))
    assert len({f.name for f in families}) == len(families)
    samples = [s for f in families for s in f.samples]
    assert all(s.timestamp is None for s in samples)
    found = {(s.name, frozenset(s.labels.items())): s.value for s in samples}
    assert len(found) == len(samples)
    return found


def chosen(made: Report, name: str, **labels: str) -> list[float]:
    return [v for (n, found), v in parsed(made).items() if n == f"contract_{name}" and frozenset(labels.items()) <= found]


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_read(name: str) -> None:
    made = REPORTS[name]
    assert chosen(made, "exit_code") == [int(made.exit_code)]
    assert chosen(made, "verdict", verdict=made.verdict.value) == [1.0]
    assert sum(chosen(made, "verdict")) == 1.0
    assert chosen(made, "complete") == [float(made.complete)]
    for status in Status:
        assert chosen(made, "checks", status=status.value) == [sum(c.status is status for c in made.checks)]


@settings(max_examples=50)
@given(made=reports())
def test_any_report_is_read(made: Report) -> None:
    failed = [c for c in made.checks if c.status is Status.FAILED]
    assert sum(chosen(made, "failed_checks")) == len(failed)


def test_the_worst_labels_come_back_visible() -> None:
    made = Report(command="verify", subject={"spec": HOSTILE, "server": 'a"b\\n\\'}, checks=[PASSED])
    ((_, labels),) = [key for key in parsed(made) if key[0] == "contract_exit_code"]
    assert dict(labels) == {"command": "verify", "spec": visible(HOSTILE), "server": 'a"b\\n\\'}


def test_the_figures_of_a_server() -> None:
    made = report(PASSED, measurements={"server": SERVER, "training_path": {"accepted_length": 2.5, "accuracy": [0.75, float("nan")]}})
    assert chosen(made, "accepted_length", path="server") == [2.25]
    assert chosen(made, "accepted_length", path="training") == [2.5]
    assert chosen(made, "accepted_length_bound", path="server", end="low") == [1.5]
    assert chosen(made, "promised_length", path="server") == [2.1]
    assert chosen(made, "verify_steps") == [116]
    assert [chosen(made, "position_acceptance", position=str(i)) for i in range(3)] == [[0.5], [0.25], []]
    assert chosen(made, "accuracy") == [0.75]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "2.1", True, None, [2.1], {}])
def test_what_is_no_number_has_no_series(value: object) -> None:
    made = report(FAILED, measurements={"server": SERVER | {"accepted_length": value, "accepted_length_interval": value}})
    assert chosen(made, "accepted_length") == []
    assert not [v for v in chosen(made, "accepted_length_bound") if v != 2.1]


def test_what_is_of_another_shape_is_left_out() -> None:
    assert chosen(report(PASSED, measurements={"server": [1], "claimed": "x"}), "accepted_length") == []


def test_files_of_several_contracts_lie_in_one_folder() -> None:
    """No series of one file is one of the other's, and both describe a metric in the same words."""
    subjects = ({"spec": "a", "server": "http://x"}, {"spec": "a"})
    texts = [render(Report(command="verify", subject=s, checks=[PASSED]), "prometheus").splitlines() for s in subjects]
    samples = [{line.rpartition(" ")[0] for line in text if not line.startswith("#")} for text in texts]
    assert not samples[0] & samples[1]
    assert [line for line in texts[0] if line.startswith("#")] == [line for line in texts[1] if line.startswith("#")]
