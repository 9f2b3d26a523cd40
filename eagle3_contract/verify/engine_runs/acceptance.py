"""Acceptance measured by the engine against what our drafter predicts, in one definition, round by round of the plain run.

Legend: T tokens, K states, G target width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.files.bundle import Bundle
from contract.findings import Check, Depth, Json, Where
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.model.states import FINAL_NORM, Recipe
from eagle3_contract.verify.acceptance import Acceptance
from eagle3_contract.verify.bootstrap import CONFIDENCE
from eagle3_contract.verify.engine_runs import flags, rules
from eagle3_contract.verify.engine_runs.counters import counter_checks
from eagle3_contract.verify.engine_runs.definitions import DEFINITION, Counts, from_rounds
from eagle3_contract.verify.engine_runs.predicted import Pair, free_running, paired
from eagle3_contract.verify.engine_runs.rounds import Kind, Round, counts, rounds_of
from eagle3_contract.verify.engine_runs.rows import PLAIN, is_compared
from eagle3_contract.verify.engine_runs.tree import Shape
from eagle3_contract.verify.engine_runs.twins import Told
from eagle3_contract.verify.figures import paired_bootstrap

CLUSTERS: Final = 5
"""Requests from which on whole requests are resampled; below, single rounds, since an interval from two or three requests is none."""
SHIFT: Final = 1
"""Token shift that engines draft with."""


@dataclass(slots=True)
class Measured:
    """One request: its rounds, and our drafter at those that count."""

    told: Told
    rounds: list[Round]
    states: str
    pairs: list[Pair]
    free: Counts | None = None
    ancestors: list[Pair] | None = None

    def units(self, *, whole: bool) -> list[tuple[Acceptance, Acceptance]]:
        """(predicted, measured) to be resampled: the request, or each of its rounds."""
        each = [(Acceptance(1, p.accepted), Acceptance(1, p.round.accepted)) for p in self.pairs]
        if not whole or not each:
            return each
        return [(sum((a for a, _ in each), Acceptance()), sum((b for _, b in each), Acceptance()))]

    @property
    def alone(self) -> Counts:
        """Our drafter in rounds of its own: those of the engine where it accepts the same in each."""
        if self.free is not None:
            return self.free
        return from_rounds([p.accepted for p in self.pairs], drafted=sum(len(p.round.proposed) for p in self.pairs))

    @property
    def parting(self) -> tuple[Pair, int] | None:
        return next(((p, i) for p in self.pairs if (i := p.parts_at) is not None), None)


@dataclass(slots=True)
class Collected:
    """All requests of the plain run, and why others take no part."""

    requests: list[Measured] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def acceptance_checks(
    bundle: Bundle, recipe: Recipe, drafter: Drafter | None, measurements: dict[str, Json], *, reference: bool
) -> Iterator[Check]:
    """Measured acceptance, the engine's own counters, and the prediction.

    Args:
        bundle: the capture.
        recipe: the contract's.
        drafter: under the contract's wiring; None where it does not run.
        measurements: gets ``acceptance``.
        reference: whether the bundle's engine drafts nothing by design.

    A bundle without rounds gives nothing, or one optional unknown if its engine should have made some.
    """
    longest = flags.longest(bundle.manifest.engine.flags)
    every = [Told(r, shift=SHIFT, longest=longest) for r in bundle.requests]
    rounds = {t.id: rounds_of(t.recorded, t.account.undrafted) for t in every if t.recorded.emitted}
    if not rounds:
        if not reference:
            yield rules.PREDICTED.undecided("the capture holds no round of drafting and verifying", at=Depth.VERIFY, required=False)
        return
    yield from counter_checks(bundle, [r for each in rounds.values() for r in each])
    plain = [t for t in every if t.id in rounds and is_compared(t.request)]
    found = Collected()
    kinds = Counter(r.kind for t in plain for r in rounds[t.id])
    measured = counts([r for t in plain for r in rounds[t.id]])
    report: dict[str, Json] = {
        "definition": DEFINITION,
        "measured": measured.as_json(),
        "measured_by_run": {
            run or "plain": counts([r for t in every if t.run == run for r in rounds.get(t.id, ())]).as_json()
            for run in dict.fromkeys(t.run for t in every)
        },
        "rounds_left_out": {k.value: n for k, n in kinds.items() if k is not Kind.DRAFTED},
    }
    measurements["acceptance"] = report
    if drafter is None:
        yield rules.PREDICTED.undecided("nothing can be predicted: the drafter does not run under the contract", at=Depth.VERIFY)
        return
    if drafter.wiring.token_shift != SHIFT:
        text = f"nothing can be predicted: the contract's token shift is {drafter.wiring.token_shift}, engines draft with {SHIFT}"
        yield rules.PREDICTED.undecided(text, at=Depth.VERIFY)
        return
    try:
        for told in every:
            if told.id in rounds:
                _take(found, told, rounds[told.id], bundle, recipe, drafter)
    except UserError as error:
        yield rules.PREDICTED.undecided(f"nothing can be predicted: {error.message}", at=Depth.VERIFY, fix=error.fix)
        return
    report |= _measurement(found)
    yield _compared(found, measured, report)


def _take(found: Collected, told: Told, rounds: list[Round], bundle: Bundle, recipe: Recipe, drafter: Drafter) -> None:
    if not is_compared(told.request):
        found.left_out["of further runs" if told.run != PLAIN else "behind a cached prefix"] += 1
        return
    why, states_TC = _states(told, bundle, recipe, drafter)
    if states_TC is None:
        found.left_out[why] += 1
        return
    if not _is_text(told, rounds):
        found.left_out["whose emitted tokens are not its text"] += 1
        return
    shape = None
    if any(r.parents is not None for r in rounds):
        asked = flags.tree(bundle.manifest.engine.flags)
        nodes = max((len(r.proposed) for r in rounds), default=0)
        if asked is None:
            found.left_out["with a tree whose steps and branches the flags do not say"] += 1
            return
        shape = Shape(asked[0], asked[1], nodes)
    prompt = told.request.info.prompt_tokens
    done = Measured(told, rounds, why, paired(drafter, told.text, prompt, states_TC, rounds, shape))
    if any(p.accepted != p.round.accepted for p in done.pairs):
        done.free = free_running(drafter, told.text, prompt, states_TC, rounds, shape)
    if shape is not None:
        done.ancestors = paired(drafter, told.text, prompt, states_TC, rounds, shape, by_ancestors=True)
    found.requests.append(done)


def _states(told: Told, bundle: Bundle, recipe: Recipe, drafter: Drafter) -> tuple[str, Tensor | None]:
    """What reaches fc [T, K*G]: the contract's boundaries where they were recorded, else what was fed; or why there is none."""
    names = ["final_norm" if s == FINAL_NORM else f"boundary.{s}" for s in recipe]
    if all(name in told.request.tensors for name in names):
        how = "the contract's boundaries as the target gave them"
    elif len(bundle.manifest.recipe_fed) == drafter.wiring.states:
        names, how = [f"slot.{i}" for i in range(drafter.wiring.states)], "the states that were fed"
    else:
        return f"that feed {len(bundle.manifest.recipe_fed)} states where the contract has {drafter.wiring.states}", None
    held = [t for name in names if (t := told.tensor(name)) is not None]
    return how, torch.cat([t.to(torch.float32) for t in held], dim=-1)


def _is_text(told: Told, rounds: Sequence[Round]) -> bool:
    """Whether the emitted tokens stand where the rounds say."""
    return all(list(r.emitted) == told.text[r.at : r.at + len(r.emitted)] for r in rounds) and len(told.text) > told.recorded.prompt


def _measurement(found: Collected) -> dict[str, Json]:
    ours, theirs = _sums(found.requests)
    report: dict[str, Json] = {
        "compared_rounds": ours.rounds,
        "predicted": ours.as_json(),
        "measured_on_the_same_rounds": theirs.as_json(),
        "predicted_in_rounds_of_its_own": sum((m.alone for m in found.requests), from_rounds([], drafted=0)).as_json(),
        "requests_left_out": dict(found.left_out),
        "states": sorted({m.states for m in found.requests}),
        "equal_proposals": sum(p.parts_at is None for m in found.requests for p in m.pairs),
        "per_request": {
            m.told.id: {
                "rounds": len(m.pairs),
                "predicted": [p.accepted for p in m.pairs],
                "measured": [p.round.accepted for p in m.pairs],
                "in_rounds_of_its_own": None if m.free is None else m.free.length,
            }
            for m in found.requests
        },
    }
    trees = [m for m in found.requests if m.ancestors is not None]
    if trees:
        own = from_rounds([p.accepted for m in trees for p in m.ancestors or ()])
        report["predicted_with_own_ancestors"] = own.as_json()
    return report


def _sums(requests: Sequence[Measured]) -> tuple[Counts, Counts]:
    pairs = [p for m in requests for p in m.pairs]
    drafted = sum(len(p.round.proposed) for p in pairs)
    return from_rounds([p.accepted for p in pairs], drafted=drafted), from_rounds([p.round.accepted for p in pairs], drafted=drafted)


def _compared(found: Collected, measured: Counts, report: dict[str, Json]) -> Check:
    out = "; ".join(f"{n} requests {why}" for why, n in found.left_out.items())
    pairs = [p for m in found.requests for p in m.pairs]
    if not pairs:
        text = f"no round can be predicted{': left out are ' + out if out else ', for no draft has its true tokens behind it'}"
        return rules.PREDICTED.undecided(text, at=Depth.VERIFY, required=False, evidence={"left_out": dict(found.left_out)})
    ours, theirs = _sums(found.requests)
    whole = sum(bool(m.pairs) for m in found.requests) >= CLUSTERS
    low, high = paired_bootstrap([u for m in found.requests for u in m.units(whole=whole)])
    figures: dict[str, Json] = {
        "definition": DEFINITION,
        "difference": ours.length - theirs.length,
        "interval": [low, high],
        "resampled": "requests" if whole else "rounds",
        "per_position": {"measured": list(theirs.position_rates or ()), "predicted": list(ours.position_rates or ())},
        "left_out": dict(found.left_out),
    }
    text = (
        f"measured {theirs.length:.3f}, predicted {ours.length:.3f} tokens per verify step on {len(pairs)} of {measured.rounds} rounds of "
        f"{len(found.requests)} requests (difference {ours.length - theirs.length:+.3f}, {CONFIDENCE:.0%} interval {low:+.3f} to "
        f"{high:+.3f}); by position measured {_rates(theirs)}, predicted {_rates(ours)}"
    )
    if out:
        text += f"; left out: {out}"
    report |= {name: figures[name] for name in ("difference", "interval", "resampled")}
    parting = next(((m, *p) for m in found.requests if (p := m.parting) is not None), None)
    if parting is None:
        return rules.PREDICTED.passed(f"{text}; all proposals are equal", expected=ours.length, actual=theirs.length, evidence=figures)
    request, pair, index = parting
    step = pair.step_of(index)
    place = (
        f"proposals part first in round {pair.round.number} of {request.told.id} (token {pair.round.at}), step {step}: the engine proposes "
        f"{_at(pair.round.proposed, index)}, the drafter {_at(pair.ours.tokens, index)}"
    )
    equal = sum(p.parts_at is None for p in pairs)
    figures["first_parting"] = {"request": request.told.id, "round": pair.round.number, "step": step, "token": pair.round.at}
    if low <= 0:
        text = f"{text}; {equal} of {len(pairs)} rounds propose the same, {place}"
        return rules.PREDICTED.passed(text, expected=ours.length, actual=theirs.length, evidence=figures)
    return rules.PREDICTED.failed(
        f"{text}; {place} ({equal} of {len(pairs)} rounds propose the same)",
        expected=ours.length,
        actual=theirs.length,
        where=Where(sample=request.told.id, row=pair.round.at, step=step),
        evidence=figures,
    )


def _rates(counts_: Counts) -> str:
    return " ".join(f"{r:.2f}" for r in counts_.position_rates or ()) or "none accepted"


def _at(tokens: Sequence[int], index: int) -> str:
    return f"token {tokens[index]}" if index < len(tokens) else "nothing"
