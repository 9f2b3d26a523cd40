"""The start-up gate: a running engine's drafter against the contract beside it, before the first request.

Runs in the engine's own process, called by the plugins of vLLM and SGLang once target and drafter are loaded (docs/gate.md). Imports
nothing that an engine's environment lacks: msgspec, PyYAML, numpy, safetensors and torch are all there.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, Literal, cast

from contract.errors import UsageError, UserError
from contract.findings import Check, ExitCode, check_from_error
from contract.limits import Limits
from contract.policy import Policy, load_policy, policy_files
from contract.report.style import PLAIN
from contract.report.text import render
from contract.reporting import Report
from contract.structs import SpecInvalid
from eagle3_contract.check.context import Integrity
from eagle3_contract.engines.gate_facts import LiveFacts
from eagle3_contract.engines.gate_rules import CONTRACT, MODE, READING, REFUSED, VARIABLE

Mode = Literal["warn", "refuse"]
CONTRACT_FILE: Final = "contract.yaml"
_LOG: Final = logging.getLogger(__name__)

__all__ = ["CONTRACT_FILE", "VARIABLE", "GateRefused", "LiveFacts", "Mode", "at_start", "examine", "mode_asked"]


class GateRefused(SystemExit):
    """The gate refuses the start. A SystemExit, for SGLang 0.5.23 logs any other exception of a plugin and serves all the same.

    Attributes:
        code: the exit code of the report: 1 violated, 2 unusable, 3 unknown.
        text: the whole report.
        rule: ``gate.refused``.
    """

    def __init__(self, text: str, code: ExitCode) -> None:
        super().__init__(int(code))
        self.text = text
        self.rule = REFUSED.id

    def __str__(self) -> str:
        return self.text


def mode_asked(environ: Mapping[str, str] | None = None) -> Mode | None:
    """The mode that ``EAGLE3_CONTRACT_GATE`` asks for; None if the gate is off (unset or empty).

    Raises:
        UsageError: ``gate.mode``: it is neither ``warn`` nor ``refuse``.
    """
    value = (os.environ if environ is None else environ).get(VARIABLE, "")
    if not value:
        return None
    if value not in ("warn", "refuse"):
        raise UsageError(f"{VARIABLE} is {value!r}", rule=MODE.id, fix=MODE.remedy)
    return cast(Mode, value)


def at_start(facts: LiveFacts, mode: Mode) -> None:
    """Judge a running engine's drafter by the contract beside it.

    Everything but a kept contract (exit 0) is a reason to warn or to refuse: a violation, a required check that stays undecided, and no
    contract at all. A kept contract is logged at level INFO.

    Args:
        facts: what the plugin read from the live modules.
        mode: ``warn`` logs the report once; ``refuse`` writes it to stderr and raises.

    Raises:
        GateRefused: in mode ``refuse``; the engine must not go on.
    """
    report = examine(facts)
    if report.exit_code is ExitCode.KEPT:
        _LOG.info("%s serves the drafter %s as its contract says", facts.reference, facts.drafter)
        return
    text = f"eagle3-contract gate ({mode}): {facts.reference} does not serve the drafter as its contract says\n{render(report, PLAIN)}"
    if mode == "warn":
        _LOG.warning("%s", text)
        return
    sys.stderr.write(text)
    sys.stderr.flush()
    raise GateRefused(text, report.exit_code)


def examine(facts: LiveFacts, *, today: date | None = None) -> Report:
    """The report of the gate: the live facts, then every static check of the files and of this engine's reading of them.

    Never raises a ``UserError``: what was unusable is in the report (exit 2).

    Args:
        today: the day (UTC) on which waivers are judged; today by default.
    """
    subject = {"drafter": str(facts.drafter), "target": str(facts.target), "engine": facts.reference}
    spec = Path(facts.drafter) / CONTRACT_FILE
    if not spec.is_file():
        missing = CONTRACT.failed(f"there is no {CONTRACT_FILE} in {facts.drafter}")
        return Report(command="gate", subject=subject, checks=[missing])
    try:
        policy = load_policy(policy_files())
        checks = _checks(facts, spec, Integrity[policy.integrity.upper()], policy.limits)
    except UserError as error:
        return Report(command="gate", subject=subject, checks=_problems(error))
    report = Report(command="gate", subject=subject, checks=checks)
    try:
        return _waived(report, spec, policy, today or datetime.now(UTC).date())
    except UserError as error:
        return replace(report, checks=[*checks, *_problems(error)])


def _problems(error: UserError) -> Sequence[Check]:
    return error.problems if isinstance(error, SpecInvalid) else [check_from_error(error, dimension="contract")]


def _checks(facts: LiveFacts, spec: Path, integrity: Integrity, limits: Limits) -> list[Check]:
    from eagle3_contract.check.context import CheckContext
    from eagle3_contract.check.open_drafter import open_drafter
    from eagle3_contract.check.open_target import read_target
    from eagle3_contract.check.run import beside, check_loaded
    from eagle3_contract.engines.gate_live import check_live
    from eagle3_contract.engines.gate_tensors import check_parameters
    from eagle3_contract.model.load import load_contract

    loaded = load_contract(spec, limits=limits)
    checks: list[Check] = []
    if os.path.realpath(loaded.drafter_folder) != os.path.realpath(facts.drafter):
        checks.append(CONTRACT.failed("the contract beside the drafter is about another folder", actual=loaded.contract.drafter.path))
        return checks
    target = str(facts.target) if Path(facts.target).is_dir() else None
    opened = open_drafter(loaded.drafter_folder, loaded.contract.drafter.files, other_files=beside(loaded), limits=limits)
    context = CheckContext(
        contract=loaded.contract,
        document=loaded.document,
        drafter=opened.view,
        target=read_target(target, limits=limits) if target is not None else None,
        accounted_for=beside(loaded),
    )
    seen = (*check_live(context, facts), *check_parameters(context, opened.checkpoint, facts))
    checks += (replace(check, evidence={"engine": facts.reference, **check.evidence}) for check in seen)  # waivers are by engine
    engine, problem = _known_engine(facts)
    checks += problem
    engines = () if engine is None else (engine,)
    flags = dict.fromkeys(engines, facts.flags)
    checks += check_loaded(loaded, target=target, integrity=integrity, engines=engines, flags=flags, limits=limits)
    return checks


def _known_engine(facts: LiveFacts) -> tuple[str | None, list[Check]]:
    """The engine reference for the static reading, or why there is none."""
    from eagle3_contract.readings.engines import parse_engine

    try:
        parse_engine(facts.reference)
    except UserError as error:
        return None, [READING.undecided(error.message, required=True, fix=READING.remedy)]
    return facts.reference, []


def _waived(report: Report, spec: Path, policy: Policy, today: date) -> Report:
    """The report under the waivers beside the contract and the organisation's policy, as ``contract check`` judges it."""
    from contract.policy.apply import split_waivers
    from contract.rules import core_rules
    from contract.waivers import apply_waivers, load_waivers, waivers_path
    from eagle3_contract.rules import ALL_RULES

    path = waivers_path(spec)
    if not os.path.lexists(path):
        return report
    loaded = load_waivers(path, rules={rule.id: rule for rule in (*core_rules(), *ALL_RULES)}, limits=policy.limits)
    waivers, refused = split_waivers(loaded, policy, today=today)
    judged = apply_waivers(report, waivers, today=today)
    return replace(judged, checks=[*judged.checks, *refused])
