"""The static check, as the very engine that runs reads the drafter and with the flags that it shows: the reason behind a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contract.errors import UserError
from contract.findings import Check
from contract.limits import Limits
from contract.requests import VerifyRequest
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check_loaded
from eagle3_contract.check.serving import SERVE
from eagle3_contract.check.serving_rules import ALGORITHM
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.readings.engines import EngineRef, known_engines, parse_engine
from eagle3_contract.readings.serve_asked import flags_for, refuse_unmatched
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.facts import ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The readings to check: references, their flags, and what is said about the version."""

    engines: Sequence[str] = ()
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checks: Sequence[Check] = ()


def readers_of(facts: ServerFacts, given: Mapping[str, str]) -> Readers:
    """The readings of a server's engine; none of one that drafts nothing.

    Flags that are given (``--serve-args``) beat those that the server shows. From outside the runner does not show either: all are read,
    and the worst counts, unless flags are given for one (``--serve-args 'vllm[v1]=...'``).

    Raises:
        UsageError: ``--serve-args`` for another engine, or unreadable.
    """
    if facts.speculates is False:
        return Readers()  # nothing reads the drafter there, which is a finding of its own
    named = sorted({name for name in given if name.startswith(f"{facts.engine}[")})
    refuse_unmatched([facts.name, facts.engine, *named], given)
    try:
        version = parse_engine(facts.name).version
        refs = [str(EngineRef(facts.engine, parse_engine(name).runner, version)) for name in named] or [facts.name]
    except UserError as error:
        known = "; ".join(e for e in known_engines() if e.startswith(facts.engine))
        says = f"what {facts.name} makes of the drafter is not known: {error.message}"
        return Readers(checks=[rules.VERSION_READ.failed(says, expected=known, actual=facts.version)])
    asked = dict(zip(refs, named or [facts.name], strict=True))
    flags = {ref: {**facts.flags, **flags_for(name, given)} for ref, name in asked.items()}
    passed = rules.VERSION_READ.passed(f"the reading of {', '.join(refs)} is known", actual=facts.version)
    return Readers(engines=refs, flags=flags, checks=[passed])


def static_checks(loaded: LoadedContract, request: VerifyRequest, readers: Readers, limits: Limits) -> Iterator[Check]:
    """``contract check`` under these readings.

    The numbers of the serving section are left to ``server.serving``, which has them from the server itself; and what vLLM drafts with is
    not judged by a flag that nobody has seen.
    """
    unseen = any(ref.startswith("vllm") and "speculative_config" not in flags for ref, flags in readers.flags.items())
    left = {SERVE.id, ALGORITHM.id} if unseen else {SERVE.id}
    for check in check_loaded(
        loaded,
        target=request.target,
        integrity=Integrity[request.integrity.upper()],
        engines=readers.engines,
        flags=readers.flags,
        allow_pickle=request.allow_pickle,
        limits=limits,
    ):
        if check.rule not in left:
            yield check
