"""Verify a drafter as a command is about to serve it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contract.answers import Result
from contract.errors import InternalError, UsageError
from contract.findings import Check, ExitCode
from contract.gate import judge
from contract.guarding.rules import COMMAND, DRAFTER, ENGINE, TARGET
from contract.guarding.served import Served, served
from contract.kinds import Kind
from contract.reporting import Report
from contract.requests import CheckRequest, Integrity, VerifyRequest
from contract.source import read_yaml
from contract.source.nodes import ScalarNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What ``contract guard`` was asked. ``verify`` asks for the dynamic depth as well, on ``capture`` and ``samples``."""

    spec: str
    engine: str
    command: Sequence[str]
    target: str | None = None
    serve_args: Mapping[str, str] = field(default_factory=dict)
    integrity: Integrity = "headers"
    verify: bool = False
    capture: str | None = None
    samples: str | None = None


def examine(asked: Guarded, kind: Kind, *, policies: Callable[[], Iterable[str]] = tuple) -> Report:
    """The report on which the guard decides.

    Raises:
        UsageError: the command starts another engine than the one named, or its flags are given twice.
        UserError: as the kind and the gate raise.
    """
    line = served(asked.command)
    _one_engine(asked, line)
    flags = dict(asked.serve_args) if line is None else {asked.engine: shlex.join(asked.command)}
    target = asked.target or (line.target if line is not None and line.target and os.path.isdir(line.target) else None)
    request = CheckRequest(spec=asked.spec, engines=(asked.engine,), target=target, serve_args=flags, integrity=asked.integrity)
    report = _report(judge(kind, request, policies=policies))
    checks = [*report.checks, *_of_command(asked, line)]
    measurements, provenance, complete = dict(report.measurements), dict(report.provenance), report.complete
    if asked.verify and report.exit_code in (ExitCode.KEPT, ExitCode.UNKNOWN):
        deep = VerifyRequest(spec=asked.spec, capture=asked.capture, samples=asked.samples, target=target, integrity=asked.integrity)
        more = _report(judge(kind, deep, policies=policies))
        checks += [check for check in more.checks if check not in report.checks]
        measurements |= more.measurements
        provenance |= more.provenance
        complete = complete and more.complete
    provenance["command"] = list(asked.command)
    return Report(
        command="guard",
        subject={**report.subject, "engine": asked.engine},
        checks=checks,
        measurements=measurements,
        provenance=provenance,
        complete=complete,
    )


def _report(result: Result) -> Report:
    if not isinstance(result, Report):
        raise InternalError("check and verify return reports")
    return result


def _one_engine(asked: Guarded, line: Served | None) -> None:
    name = asked.engine.partition("==")[0].partition("[")[0].lower()
    if line is not None and line.engine != name:
        raise UsageError(f"the command starts {line.engine}, --engine names {name}", rule=ENGINE.id, fix=ENGINE.remedy)
    if line is not None and asked.serve_args:
        raise UsageError("the command's own flags count, and --serve-args gives others", rule=ENGINE.id, fix="Leave --serve-args out.")


def _of_command(asked: Guarded, line: Served | None) -> Iterator[Check]:
    if line is None:
        yield COMMAND.failed(f"{asked.command[0]} is no server command line that is known: its flags were not verified")
        return
    yield _drafter(asked, line)
    if asked.target is not None and line.target is not None and os.path.exists(line.target):
        given = asked.target if os.path.isdir(asked.target) else os.path.dirname(asked.target) or "."
        if _same(given, line.target):
            yield TARGET.passed(f"the server is given the target {line.target}")
        else:
            yield TARGET.failed("the server is given another target", expected=asked.target, actual=line.target)


def _drafter(asked: Guarded, line: Served) -> Check:
    folder = drafter_folder(asked.spec)
    if line.drafter is None:
        said = "the command names no drafter: the server would serve without speculation"
        return DRAFTER.undecided(f"{said}, unless its --config does") if line.elsewhere else DRAFTER.failed(said, expected=str(folder))
    if not os.path.isdir(line.drafter):
        return DRAFTER.undecided(
            f"the server is given the drafter {line.drafter}, which is no folder here",
            expected=str(folder),
            actual=line.drafter,
            fix="Give the server the folder that was verified.",
        )
    if folder is None or not _same(folder, line.drafter):
        return DRAFTER.failed("the server is given another drafter", expected=str(folder), actual=line.drafter)
    return DRAFTER.passed(f"the server is given the drafter {line.drafter}")


def drafter_folder(spec: str) -> Path | None:
    """The folder that the contract's ``drafter.path`` names; None if it names none."""
    node = read_yaml(spec).node_at(("drafter", "path"))
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return None
    return Path(spec).parent / node.value


def _same(one: str | Path, other: str | Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
