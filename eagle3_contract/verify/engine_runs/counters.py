"""The engine's own counters against the rounds that were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contract.files.bundle import Bundle
from contract.findings import Check, Depth, Json
from eagle3_contract.verify.engine_runs import rules
from eagle3_contract.verify.engine_runs.rounds import Kind, Round


def counter_checks(bundle: Bundle, rounds: Sequence[Round]) -> Iterator[Check]:
    """The engine's counters against the recorded rounds of all runs: it counts each as it was verified, those that are cut later too."""
    counted = bundle.manifest.counters
    served, seen = bundle.manifest.counts.get("requests"), bundle.manifest.counts.get("rounds")
    drafted = [r for r in rounds if r.kind is not Kind.WITHOUT]
    cut = [r for r in drafted if r.kind is Kind.CUT]
    more = sum(len(r.proposed) - r.accepted for r in cut)
    recorded = {
        "rounds": (len(drafted), 0),
        "drafted_tokens": (sum(len(r.proposed) for r in drafted), 0),
        "accepted_tokens": (sum(r.accepted for r in drafted), more),
    }
    known = {name: counted[name] for name in recorded if name in counted}
    if not known:
        yield rules.ENGINE_COUNTERS.undecided("the capture holds no counters of the engine", at=Depth.VERIFY, required=False)
        return
    if served is not None and served.counted is not None and served.counted > served.recorded:
        text = f"{served.recorded} of {served.counted} requests were recorded: the engine's counters are over all of them"
        yield rules.ENGINE_COUNTERS.undecided(text, at=Depth.VERIFY, required=False)
        return
    if seen is not None and seen.recorded > len(rounds):
        text = f"{len(rounds)} of the {seen.recorded} rounds that were seen are in the capture: the engine's counters are over all of them"
        yield rules.ENGINE_COUNTERS.undecided(text, at=Depth.VERIFY, required=False)
        return
    wrong = [n for n, value in known.items() if not recorded[n][0] <= value <= recorded[n][0] + recorded[n][1]]
    figures = "; ".join(f"{n.replace('_', ' ')} {v:g} counted, {recorded[n][0]} recorded" for n, v in known.items())
    if cut:
        figures += f" ({len(cut)} rounds were cut by the limit on new tokens, which the engine counts whole: up to {more} more accepted)"
    evidence: dict[str, Json] = {"counted": dict(known), "recorded": {n: recorded[n][0] for n in known}, "cut": len(cut)}
    check = rules.ENGINE_COUNTERS.failed if wrong else rules.ENGINE_COUNTERS.passed
    yield check(
        figures,
        expected={n: recorded[n][0] for n in (wrong or known)},
        actual={n: known[n] for n in (wrong or known)},
        evidence=evidence,
    )
