"""Whatever the checks and the waivers: nothing is lost, and only a failure that is named, in scope and in time is waived."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from contract.findings import Check, ExitCode, Status, Where
from contract.waivers import Waivers, apply_waivers
from contract.waivers.load import covers_rule
from contract.waivers.match import engine_of, in_scope
from contract.waivers.model import Scope, Waiver

from .build import LOUD, OTHER, SILENT, TODAY, report

ENGINES = st.sampled_from([None, "sglang==0.5.23", "vllm[v1]==0.32.0", "vllm[v2]==0.32.0"])
SLOTS = st.sampled_from([None, 0, 1])


@st.composite
def checks(draw: st.DrawFn) -> Check:
    engine, slot = draw(ENGINES), draw(SLOTS)
    rule = draw(st.sampled_from([LOUD, SILENT, OTHER]))
    made = rule.failed("x", where=None if slot is None else Where(slot=slot), evidence={} if engine is None else {"engine": engine})
    return replace(made, status=draw(st.sampled_from(list(Status))), required=draw(st.booleans()), rejected=draw(st.booleans()))


@st.composite
def waivers(draw: st.DrawFn) -> Waiver:
    engine = draw(st.sampled_from(["any", "sglang", "vllm", "vllm[v1]"]))
    versions = "any" if engine == "any" else draw(st.sampled_from(["any", "==0.32.0", ">=0.5,<0.6"]))
    return Waiver(
        rule=draw(st.sampled_from([LOUD.id, SILENT.id, "reading.*"])),
        scope=Scope(engine=engine, versions=versions, slot=draw(SLOTS)),
        reason="some reason to",
        expires=str(TODAY + timedelta(days=draw(st.integers(-2, 2)))),
        measured=draw(st.sampled_from([None, "measured on 200 prompts"])),
    )


@given(st.lists(checks(), max_size=6), st.lists(waivers(), max_size=4))
def test_nothing_is_lost_and_only_named_failures_are_waived(found: list[Check], given_: list[Waiver]) -> None:
    file = Waivers(file="w", sha256="0", waivers=given_, places=[Where(file="w", line=n + 1) for n in range(len(given_))])
    before = report(*found)
    after = apply_waivers(before, file, today=TODAY)
    for old, new in zip(found, after.checks, strict=False):
        if new == old:
            continue
        assert (old.status, new.status, old.rejected) == (Status.FAILED, Status.WAIVED, False)
        assert replace(new, status=old.status, message=old.message, evidence=old.evidence) == old
        assert any(
            covers_rule(w.rule, old.rule)
            and in_scope(w.scope, old, engine_of(old, before))
            and w.last_day >= TODAY
            and (old.rule == LOUD.id or w.measured)
            for w in given_
        )
    expired = [w for w in given_ if w.last_day < TODAY]
    assert sum(c.rule == "waivers.expired" and c.status is Status.FAILED for c in after.checks) == len(expired)
    if before.exit_code is ExitCode.UNUSABLE:
        assert after.exit_code is ExitCode.UNUSABLE
    if expired:
        assert after.exit_code in (ExitCode.VIOLATED, ExitCode.UNUSABLE)
