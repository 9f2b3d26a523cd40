"""Prometheus text exposition 0.0.4: the verdict and the figures of a report as gauges, for the textfile collector of node_exporter.

Without timestamps, which that collector refuses. Every series carries the same labels ``command``, ``spec`` and ``server``, so that the
files of several contracts lie in one folder. A figure that is not finite has no series: an alert on its absence notices, and a comparison
with NaN would never. docs/server.md lists the metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from contract.findings import Json, Status, Verdict
from contract.report.escape import visible
from contract.report.style import Style
from contract.reporting import Report

PREFIX: Final = "contract_"
PATHS: Final = {"claimed": "claimed", "training": "training_path", "inference": "inference_path", "server": "server"}
"""Label value to measurement: the paths that have figures."""
MOST: Final = 1000
"""Steps or positions of one figure that get a series; who has more has no use for them."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: Json, **labels: str) -> None:
        """A sample, if the value is a finite number."""
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            self.samples.append((labels, float(value)))


def render(report: Report, style: Style) -> str:
    """``style`` changes nothing."""
    del style
    common = {"command": report.command, "spec": _text(report.subject.get("spec")), "server": _text(report.subject.get("server"))}
    lines: list[str] = []
    for metric in (*_outcome(report), *_figures(report.measurements)):
        if not metric.samples:
            continue
        name = PREFIX + metric.name
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels({**common, **labels})} {_number(value)}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def _outcome(report: Report) -> Iterator[_Metric]:
    verdict = _Metric("verdict", "1 for the verdict of the report, 0 for the other ones.")
    for one in Verdict:
        verdict.add(int(report.verdict is one), verdict=one.value)
    code = _Metric("exit_code", "Exit code of the report: 0 kept, 1 violated, 2 unusable, 3 unknown.")
    code.add(int(report.exit_code))
    complete = _Metric("complete", "0 if the run was interrupted.")
    complete.add(int(report.complete))
    checks = _Metric("checks", "Number of checks by status.")
    for status in Status:
        checks.add(sum(c.status is status for c in report.checks), status=status.value)
    failed = _Metric("failed_checks", "Number of failed checks by rule.")
    undecided = _Metric("undecided_checks", "Number of required checks that could not be decided, by rule.")
    for metric, chosen in (
        (failed, [c.rule for c in report.checks if c.status is Status.FAILED]),
        (undecided, [c.rule for c in report.checks if c.status is Status.UNKNOWN and c.required]),
    ):
        for rule in dict.fromkeys(chosen):
            metric.add(chosen.count(rule), rule=rule)
    yield from (verdict, code, complete, checks, failed, undecided)


def _figures(measurements: Mapping[str, Json]) -> Iterator[_Metric]:
    length = _Metric("accepted_length", "Tokens per verify step: the bonus token counted, the prefill's token not; pooled.")
    bounds = _Metric("accepted_length_bound", "Ends of the interval of the accepted length.")
    promised = _Metric("promised_length", "Accepted length from which on the contract calls the drafter worth serving, in its own terms.")
    rounds = _Metric("verify_steps", "Verify steps that the accepted length was counted over.")
    positions = _Metric("position_acceptance", "Share of the verify steps that accepted the draft at a position, counted from 0.")
    accuracy = _Metric("accuracy", "Top-1 accuracy by drafting step, in the definition of the trainer.")
    for path, source in PATHS.items():
        figures = measurements.get(source)
        if not isinstance(figures, Mapping):
            continue
        length.add(figures.get("accepted_length"), path=path)
        for end, value in zip(("low", "high"), _list(figures.get("accepted_length_interval")), strict=False):
            bounds.add(value, path=path, end=end)
        promised.add(figures.get("promised_length"), path=path)
        rounds.add(figures.get("rounds"), path=path)
        for index, value in enumerate(_list(figures.get("position_acceptance"))):
            positions.add(value, path=path, position=str(index))
        for index, value in enumerate(_list(figures.get("accuracy"))):
            accuracy.add(value, path=path, step=str(index))
    yield from (length, bounds, promised, rounds, positions, accuracy)


def _list(value: Json) -> Sequence[Json]:
    return value[:MOST] if isinstance(value, list | tuple) else ()


def _text(value: Json) -> str:
    return "" if value is None else str(value)


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return visible(value).replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
