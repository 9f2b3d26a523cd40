"""What the probe is asked: the ropes that training may have used, and the recipes that the stored states allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from contract.errors import UserError
from contract.findings import Json
from contract.statement import Fact
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.init.ledger import Ledger, text_of
from eagle3_contract.init.probe import Hypothesis, Probe, Says, probe
from eagle3_contract.model.states import Recipe, recipe_text
from eagle3_contract.model.view import DrafterView
from eagle3_contract.model.wiring import Reading, Rope
from eagle3_contract.trainers.reading import TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, DeclaredRope, declared_rope
from eagle3_contract.trainers.sample import TrainingSample

_TYPE: Final = "wiring.rope.type"
_SCALING: Final = "wiring.rope.scaling"
_THETA: Final = "wiring.rope.theta"


@dataclass(frozen=True, slots=True)
class Ground:
    """What every probe of one checkpoint rests on. ``reading`` is what the trainer's adapter made of it."""

    reading: TrainingReading
    held: Sequence[TrainingSample]
    source: WeightSource
    target: WeightSource | None
    says: Says | None = None

    def resolved(self, ledger: Ledger, states: int) -> Reading:
        """The wiring as it is known by now, the likely values for what is not. Raises UserError if it cannot be run at all."""
        paths = set(self.reading.facts)
        facts = dict(self.reading.facts) | {path: fact for path, fact in ledger.facts.items() if path in paths and fact.known}
        facts["states"] = Fact(known=True, value=states, evidence="measured")
        likely = {path: value for path, value in ledger.likely.items() if value is not None or path == "wiring.window"}
        return replace(self.reading, facts=facts, likely=likely).resolve(recipe=False, assume=True)


def compare_recipes(ground: Ground, ledger: Ledger, choices: Sequence[tuple[Recipe, tuple[int, ...]]]) -> Probe:
    """Probe recipes against each other; the hypotheses are named by ``recipe_text``."""
    try:
        reading = ground.resolved(ledger, len(choices[0][0]))
    except UserError as error:
        return Probe(best=None, against={}, decided=False, reason=error.message)
    return probe(
        [Hypothesis(recipe_text(r), reading, picked) for r, picked in choices], ground.held, ground.source, ground.target, ground.says
    )


def decide_rope(ground: Ground, ledger: Ledger, view: DrafterView, picked: tuple[int, ...]) -> None:
    """Let the samples decide between the ropes that training may have used, and state the result with its interval.

    The ropes are the one that is stated (or likely), the one that the config declares, and plain ones with the declared base and with
    EAGLE's 10000. What stays undecided stays as it was.
    """
    try:
        reading = ground.resolved(ledger, len(picked))
    except UserError as error:
        _note_unknown(ledger, f"the samples were not asked: {error.message}")
        return
    ropes = _ropes(reading.wiring.rope, _declared(view))
    if len(ropes) < 2:
        return
    named = {_name(r): r for r in ropes}
    hypotheses = [Hypothesis(n, replace(reading, wiring=replace(reading.wiring, rope=r)), picked) for n, r in named.items()]
    found = probe(hypotheses, ground.held, ground.source, ground.target, ground.says)
    if not found.decided or found.best is None:
        _note_unknown(ledger, f"the samples do not decide: {found.reason}")
        return
    best = named[found.best]
    for path, value in ((_TYPE, best.type), (_SCALING, dict(best.scaling)), (_THETA, best.theta)):
        _state(ledger, path, value, f"paired cross-entropy on the samples: {found.reason}")


def _state(ledger: Ledger, path: str, value: Json, note: str) -> None:
    """A measurement fills what is unknown and confirms what is known; what the trainer's code says otherwise is a contradiction, and
    then neither is believed."""
    before = ledger.facts.get(path)
    value = {k: list(v) if isinstance(v, tuple) else v for k, v in value.items()} if isinstance(value, Mapping) else value
    if before is None or not before.known:
        ledger.know(path, value, "measured", note)
    elif before.value == value:
        ledger.facts[path] = replace(before, note=f"{before.note}; confirmed: {note}")
    else:
        ledger.contradict(path, before, value, note)
        ledger.likely[path] = value
        ledger.forget(path, f"{before.evidence} says {text_of(before.value)} ({before.note}); {note}")


def _note_unknown(ledger: Ledger, reason: str) -> None:
    for path in (_TYPE, _SCALING, _THETA):
        fact = ledger.facts.get(path)
        if fact is not None and not fact.known and reason not in str(fact.reason):
            ledger.forget(path, f"{fact.reason}; {reason}")


def _declared(view: DrafterView) -> DeclaredRope:
    inner = view.section("transformer_layer_config")
    return declared_rope(inner if inner else view.config)


def _ropes(stated: Rope, declared: DeclaredRope) -> list[Rope]:
    """Distinct ropes, the stated one first."""
    base = declared.theta if declared.theta is not None else EAGLE_BASE
    found = [stated]
    if not declared.malformed:
        found.append(replace(stated, type=declared.type, scaling=dict(declared.scaling), theta=base))
    found += [replace(stated, type="default", scaling={}, theta=theta) for theta in (base, EAGLE_BASE)]
    return list({_key(r): r for r in reversed(found)}.values())[::-1]


def _key(rope: Rope) -> tuple[Any, ...]:
    return rope.type, rope.theta, tuple(sorted((k, str(v)) for k, v in rope.scaling.items()))


def _name(rope: Rope) -> str:
    scaling = ", ".join(f"{k} {v}" for k, v in sorted(rope.scaling.items()))
    return f"rope {rope.type} theta {rope.theta:g}" + (f" ({scaling})" if scaling else "")


def names_layer_ids(view: DrafterView) -> bool:
    """Whether the config names layer ids at all."""
    keys = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_states_layer_ids")
    return any(isinstance(place.get(k), list) and place[k] for place in (view.config, view.section("eagle_config")) for k in keys)
