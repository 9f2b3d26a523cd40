"""What was counted, against what the contract promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contract.errors import UserError
from contract.files.names import shown
from contract.findings import Check, Depth, Json, Rule
from contract.statement import fact
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.readings.engines import parse_engine
from eagle3_contract.verify.bootstrap import CONFIDENCE
from eagle3_contract.verify.engine_runs.definitions import Counts
from eagle3_contract.verify.rules import FLOOR
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.facts import ServerFacts, Told, Window
from eagle3_contract.verify.server.figure import Terms, interval, length, terms_of

ENOUGH: Final = 30
"""Verify steps from which on a length is judged: at one accepted draft a step its standard error is then near 0.2."""


def own_counts(told: Sequence[Told]) -> list[Counts]:
    """The verify steps of the requests that were counted alone."""
    return [t.counts for t in told if t.window is Window.OWN and t.counts is not None and t.counts.rounds]


def speculation_check(facts: ServerFacts, told: Sequence[Told]) -> Check:
    """Whether the server drafts at all."""
    evidence: dict[str, Json] = {"engine": facts.name, "algorithm": facts.algorithm, "requests": len(told)}
    counts = own_counts(told)
    how = f" ({facts.algorithm})" if facts.algorithm else ""
    if counts:
        says = f"{facts.name} drafts{how}: {sum(c.rounds for c in counts)} verify steps in {len(counts)} requests"
        return rules.SPECULATION.passed(says, evidence=evidence)
    if any(t.counts is not None and t.counts.rounds for t in told):
        return rules.SPECULATION.passed(f"{facts.name} drafts{how}, for others at least", evidence=evidence)
    if facts.speculates is False:
        shows = "no speculative_algorithm" if facts.engine == "sglang" else "no counter of drafts among its metrics"
        return rules.SPECULATION.failed(f"{facts.name} does not draft: it shows {shows}", evidence=evidence)
    decoded = [t for t in told if t.window is Window.OWN and t.tokens > 2]
    if facts.speculates and decoded:
        tokens = sum(t.tokens for t in decoded)
        says = f"{facts.name} is set up to draft{how}, and verified no draft in {tokens} tokens"
        return rules.SPECULATION.failed(says, actual=0, evidence=evidence)
    return rules.SPECULATION.undecided(f"whether {facts.name} drafts does not show", at=Depth.LIVE, fix=rules.SPECULATION.remedy)


def counting_checks(facts: ServerFacts, told: Sequence[Told]) -> Iterator[Check]:
    """Whether the counters belong to these requests, and to them alone."""
    if not told:
        return
    strange = [t for t in told if t.window in (Window.RESET, Window.STILL, Window.CONTRADICTORY)]
    if strange:
        first = strange[0]
        yield rules.COUNTERS.undecided(
            f"{len(strange)} of {len(told)} requests are not in the counters as they should be; "
            f"{shown(first.prompt.id)}: {shown(first.detail, 200)}",
            at=Depth.LIVE,
            fix=rules.COUNTERS.remedy,
            evidence={t.prompt.id: t.window.value for t in strange},
        )
    else:
        yield rules.COUNTERS.passed(f"the counters show all {len(told)} requests")
    if facts.engine == "sglang":
        yield rules.TRAFFIC.skipped("SGLang counts by request, so that other clients' requests are in no figure")
        return
    foreign = [t for t in told if t.window is Window.FOREIGN]
    alone = [t for t in told if t.window is Window.OWN]
    if not foreign:
        yield rules.TRAFFIC.passed(f"nothing but these {len(told)} requests was counted")
        return
    everybody = sum((t.counts for t in told if t.counts is not None), Counts(rounds=0, accepted=0))
    says = (
        f"others were counted beside {len(foreign)} of {len(told)} requests, which are left out; "
        f"{shown(foreign[0].prompt.id)}: {foreign[0].detail}. All together: "
        f"{everybody.length:.3f} tokens per verify step, in texts that are not the contract's"
    )
    enough = 2 * len(alone) >= len(told) and sum(c.rounds for c in own_counts(told)) >= ENOUGH
    yield rules.TRAFFIC.undecided(says, required=not enough, actual=len(foreign), fix=rules.TRAFFIC.remedy)


def acceptance_checks(loaded: LoadedContract, facts: ServerFacts, told: Sequence[Told], *, predicted: bool) -> Iterator[Check]:
    """Measured acceptance against the floor and the baselines; nothing where nothing was counted.

    Args:
        predicted: whether it will be held against a prediction as well. Where there is nothing at all to hold it against, it is unknown
            whether acceptance is what it should be.
    """
    counts = own_counts(told)
    if not counts:
        return
    rounds = sum(c.rounds for c in counts)
    if rounds < ENOUGH:
        text = f"{rounds} verify steps in {len(counts)} requests are too few to judge acceptance by"
        yield rules.ROUNDS.undecided(text, at=Depth.LIVE, expected=f">= {ENOUGH}", actual=rounds, fix=rules.ROUNDS.remedy)
        return
    yield rules.ROUNDS.passed(f"{rounds} verify steps in {len(counts)} requests", expected=f">= {ENOUGH}", actual=rounds)
    stated = loaded.contract.acceptance
    floor, terms = fact(stated.floor), terms_of(stated)
    where = loaded.document.where("acceptance.floor")
    if not floor.known:
        yield FLOOR.undecided(
            f"the contract states no floor ({floor.reason})",
            required=not predicted and not any(_of(facts, baseline.engine) for baseline in stated.baselines),
            where=where,
            fix="State acceptance.floor, or let acceptance be predicted with --target or --samples.",
        )
    elif (reason := _another_figure(loaded, facts, terms)) is not None or isinstance(terms, str):
        yield FLOOR.undecided(
            f"the floor cannot be held against the server: {reason}",
            required=True,
            where=where,
            fix="State the floor for greedy decoding at the served number of drafts, and in which terms.",
        )
    else:
        yield _held(counts, terms, float(floor.value), FLOOR, f"{facts.name}: accepted length", "floor", where=where)
    yield from _baselines(loaded, facts, counts, terms)


def _another_figure(loaded: LoadedContract, facts: ServerFacts, terms: Terms | str) -> str | None:
    """Why the contract's figures speak of something else than what was measured, or None."""
    if isinstance(terms, str):
        return terms
    k, temperature = fact(loaded.contract.acceptance.k), fact(loaded.contract.acceptance.temperature)
    if temperature.known and temperature.value != 0:
        return f"it is stated at temperature {temperature.value}, and this was measured greedy"
    if k.known and facts.steps is not None and k.value != facts.steps:
        return f"it is stated for {k.value} drafts, the server makes {facts.steps}"
    return None


def _baselines(loaded: LoadedContract, facts: ServerFacts, counts: Sequence[Counts], terms: Terms | str) -> Iterator[Check]:
    for index, baseline in enumerate(loaded.contract.acceptance.baselines):
        where = loaded.document.where(("acceptance", "baselines", index))
        if not _of(facts, baseline.engine):
            yield rules.BASELINE.skipped(f"the baseline of {baseline.engine} is not for {facts.name}", where=where)
        elif (reason := _another_figure(loaded, facts, terms)) is not None or isinstance(terms, str):
            yield rules.BASELINE.undecided(f"the baseline of {baseline.engine} cannot be held against the server: {reason}", where=where)
        else:
            what = f"baseline of {baseline.engine} ({shown(baseline.source)})"
            yield _held(counts, terms, baseline.value, rules.BASELINE, f"{facts.name}: accepted length", what, where=where)


def _of(facts: ServerFacts, engine: str) -> bool:
    """Whether an engine reference means the server's engine, at its version if it names one."""
    try:
        named = parse_engine(engine)
    except UserError:
        return False
    return named.name == facts.engine and named.version in (None, facts.version)


def _held(counts: Sequence[Counts], terms: Terms, promised: float, rule: Rule, what: str, promise: str, **more: Json) -> Check:
    """A measured length against a promised one: below it the interval decides between a failure and not knowing."""
    got, (low, high) = length(counts, terms), interval(counts, terms)
    text = f"{what} {got:.3f} ({CONFIDENCE:.0%} interval {low:.3f} to {high:.3f}, {len(counts)} requests), {promise} {promised:.3f}"
    evidence: dict[str, Json] = {"accepted_length": got, "interval": [low, high], "definition": str(terms), "requests": len(counts)}
    more |= {"expected": f">= {promised}", "actual": got, "evidence": evidence}
    if got >= promised:
        return rule.passed(text, **more)
    if high < promised:
        return rule.failed(text, **more)
    unsure = f"{text}: below it, and too few requests to be sure"
    return rule.undecided(unsure, required=True, fix="Give more prompts, or more tokens with --max-new-tokens.", **more)


def measurement(loaded: LoadedContract, facts: ServerFacts, told: Sequence[Told], since_start: float | None) -> dict[str, Json]:
    """The figures for the report, in the one definition, and what they are held against (in the contract's own terms)."""
    counts = own_counts(told)
    pooled = sum(counts, Counts(rounds=0, accepted=0, drafted=0, per_position=()))
    rates = pooled.position_rates
    with_others = sum((t.counts for t in told if t.counts is not None), Counts(rounds=0, accepted=0))
    floor = fact(loaded.contract.acceptance.floor)
    return {
        **facts.as_json(),
        "requests": len(told),
        "counted_requests": len(counts),
        "tokens": sum(t.tokens for t in told),
        **pooled.as_json(),
        "accepted_length": length(counts),
        "accepted_length_interval": list(interval(counts)),
        "confidence": CONFIDENCE,
        "position_acceptance": None if rates is None else list(rates),
        "promised_length": float(floor.value) if floor.known else None,
        "since_start": since_start,
        "with_others": with_others.length if with_others.rounds > pooled.rounds else None,
        "per_request": {t.prompt.id: _request(t) for t in told},
    }


def _request(told: Told) -> dict[str, Json]:
    counts = told.counts
    return {
        "tokens": told.tokens,
        "window": told.window.value,
        "rounds": None if counts is None else counts.rounds,
        "accepted": None if counts is None else counts.accepted,
    }
