"""The static check, as the very engine that runs reads the drafter and with the flags that it shows: the reason behind a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from contract.errors import UserError
from contract.findings import Check, Status
from contract.limits import Limits
from contract.requests import VerifyRequest
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check_loaded
from eagle3_contract.check.serving import SERVE
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.readings.engines import EngineRef, known_engines, parse_engine
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.serve_asked import flags_for, refuse_unmatched
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.facts import ServerFacts

_ENGINE: Final = "engine"
"""Where a check's evidence says which reading it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The readings to check: references (one per runner), their flags, and what is said about the version."""

    engines: Sequence[str] = ()
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checks: Sequence[Check] = ()


def readers_of(facts: ServerFacts, given: Mapping[str, str]) -> Readers:
    """The readings of a server's engine. Flags that are given (``--serve-args``) beat those that the server shows.

    Raises:
        UsageError: ``--serve-args`` for another engine, or unreadable.
    """
    refuse_unmatched([facts.name, facts.engine], given)
    flags = {**facts.flags, **flags_for(facts.name, given)}
    try:
        ref = parse_engine(facts.name)
    except UserError as error:
        known = "; ".join(e for e in known_engines() if e.startswith(facts.engine))
        says = f"what {facts.name} makes of the drafter is not known: {error.message}"
        return Readers(checks=[rules.VERSION_READ.failed(says, expected=known, actual=facts.version)])
    passed = rules.VERSION_READ.passed(f"the reading of {facts.name} is known", actual=facts.version)
    runners = PROFILES[ref.name].runners or (None,)
    names = [str(EngineRef(ref.name, runner, ref.version)) for runner in runners]
    return Readers(engines=names, flags=dict.fromkeys(names, flags), checks=[passed])


def static_checks(loaded: LoadedContract, request: VerifyRequest, readers: Readers, limits: Limits) -> Iterator[Check]:
    """``contract check`` under these readings.

    From outside the runner does not show. Where one of an engine's runners reads the drafter as training meant it, a failure of
    another one is no more than a possible reason; where all fail, each failure counts. The numbers of the serving section are left to
    ``server.serving``, which has them from the server itself.
    """
    checks = [
        check
        for check in check_loaded(
            loaded,
            target=request.target,
            integrity=Integrity[request.integrity.upper()],
            engines=readers.engines,
            flags=readers.flags,
            allow_pickle=request.allow_pickle,
            limits=limits,
        )
        if check.rule != SERVE.id
    ]
    readings = {reader for check in checks if (reader := _reader(check)) is not None}
    failing = {reader for check in checks if check.status is Status.FAILED and (reader := _reader(check)) is not None}
    doubtful = failing if readings - failing else set()
    for check in checks:
        if check.status is Status.FAILED and _reader(check) in doubtful:
            says = f"{check.message} (if the server runs this runner; it does not show which)"
            check = replace(check, status=Status.UNKNOWN, required=False, message=says)
        yield check


def _reader(check: Check) -> str | None:
    reader = check.evidence.get(_ENGINE)
    return reader if isinstance(reader, str) else None
