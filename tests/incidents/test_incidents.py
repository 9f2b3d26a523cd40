"""Every seeded fault is found under its rule, and its clean twin is kept."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from contract.findings import Check, ExitCode, Rule, Severity, Status
from contract.reporting import Report
from eagle3_contract.check import ALL_RULES
from eagle3_contract.check.run import check_spec
from eagle3_contract.readings.serve_args import parse_serve_args
from incidents.case import Case
from incidents.cases_config import CASES as CONFIG
from incidents.cases_files import CASES as FILES
from incidents.cases_pairing import CASES as PAIRING
from incidents.cases_reading import CASES as READING
from incidents.cases_recipe import CASES as RECIPE
from incidents.cases_reports import CASES as REPORTS
from incidents.cases_serving import CASES as SERVING

CASES: tuple[Case, ...] = (*FILES, *RECIPE, *CONFIG, *PAIRING, *READING, *SERVING, *REPORTS)


def run(case: Case, folder: Path, *, broken: bool) -> Report:
    pair = case.base()
    if broken:
        case.change(pair)
    spec = pair.write(folder / "drafter")
    if broken:
        case.after(folder / "drafter")
    make = case.broken_target if broken and case.broken_target is not None else case.target
    target = None if make is None else make(folder / "target")
    engines = (*case.engines, *(case.broken_engines if broken else ()))
    given = case.broken_flags if broken and case.broken_flags else case.flags
    flags = {engine: parse_serve_args(engine, line) for engine, line in given.items()}
    return check_spec(spec, target=target, integrity=case.integrity, engines=engines, flags=flags)


TWINS: dict[object, Report] = {}


def twin(case: Case) -> Report:
    """The report of the clean twin; cases that start from the same files share it."""
    key = (case.base, case.target, case.engines, case.integrity, repr(case.flags))
    if key not in TWINS:
        with TemporaryDirectory() as folder:
            TWINS[key] = run(case, Path(folder), broken=False)
    return TWINS[key]


def spoken(report: Report, rule: str) -> list[Check]:
    return [c for c in report.checks if c.rule == rule and c.status in (Status.FAILED, Status.UNKNOWN)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fault_is_found(case: Case, tmp_path: Path) -> None:
    report = run(case, tmp_path, broken=True)
    found = spoken(report, case.rule)
    assert found, [f"{c.rule}: {c.message}" for c in report.checks if c.status is Status.FAILED]
    text = " | ".join(c.message for c in found)
    assert all(words in text for words in case.says), text
    assert all(c.fix for c in found if c.status is Status.FAILED)
    assert int(report.exit_code) == case.exit
    clean = {c.message for c in spoken(twin(case), case.rule)}
    assert {c.message for c in found} - clean
    if case.exit == 1 and not case.warns:
        assert any(c.status is Status.FAILED for c in found)
    if case.warns or case.exit == 0:
        assert all(c.severity is not Severity.ERROR for c in found)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_clean_twin_is_kept(case: Case) -> None:
    report = twin(case)
    said = [f"{c.rule}: {c.message}" for c in report.checks if c.status in (Status.FAILED, Status.UNKNOWN)]
    assert report.exit_code is ExitCode(case.twin), said
    assert not [c for c in report.checks if c.status is Status.FAILED]
    passed = {c.rule for c in report.checks if c.status is Status.PASSED}
    assert len(passed) > 30


def test_names_are_unique() -> None:
    assert len({c.name for c in CASES}) == len(CASES)


def test_every_rule_has_a_case() -> None:
    assert {r.id for r in ALL_RULES} - {c.rule for c in CASES} == set()


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda r: r.id)
def test_rule_is_documented(rule: Rule) -> None:
    assert rule.title
    assert not rule.title.endswith(".")
    assert len(rule.why) > 20
    assert len(rule.remedy) > 10
    assert rule.id.count(".") == 1
    assert rule.severity in Severity


def test_rule_ids_are_unique() -> None:
    assert len({r.id for r in ALL_RULES}) == len(ALL_RULES)
