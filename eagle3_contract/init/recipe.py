"""The recipe, from what the config could mean and what the samples store; and the state that was the target's last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeAlias

from contract.findings import Where
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.probe import Probe
from eagle3_contract.init.rules import CONTRADICTION, LAST_STATE
from eagle3_contract.init.stored_states import Slot, Stored
from eagle3_contract.model.states import FINAL_NORM, Recipe, State, recipe_text, state_name
from eagle3_contract.trainers.measure import Answer
from eagle3_contract.trainers.reading import BOUNDARIES, Candidate
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.trainers.sample_formats.neutral import FORMAT as NEUTRAL

STORED: Final = "training.samples.states"
_LAST: Final = "training.target_state"
MOST_CHOICES: Final = 24

Compare: TypeAlias = Callable[[Sequence[tuple[Recipe, tuple[int, ...]]]], Probe]
"""Runs the paired probe over recipes and the indices of their states in a sample; the hypotheses are named by ``recipe_text``."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the samples store, as far as it is known: a name per stored state, and the samples themselves."""

    stored: Stored
    held: Sequence[TrainingSample]

    @property
    def recipe(self) -> Recipe | None:
        """All stored states, if each of them is known."""
        states = self.stored.states
        return None if any(s is None for s in states) else tuple(s for s in states if s is not None)

    @property
    def text(self) -> str:
        """``[0, ?, ?]``."""
        return "[" + ", ".join("?" if s is None else str(s) for s in self.stored.states) + "]"

    @property
    def how(self) -> str:
        return "the target's own forward over the stored tokens" if self.stored.ran else "the embedding rows of the stored tokens"


def state_stored(ledger: Ledger, found: Measurement) -> None:
    """State ``training.samples.states``."""
    named = found.held[0].boundaries
    if found.recipe is not None:
        ledger.measure(STORED, found.recipe, found.how)
    elif found.stored.ran:
        ledger.forget(STORED, f"not every stored state is one of the target's: {found.text}")
    elif named is not None:
        ledger.fill(STORED, named, "declared", "metadata of the samples")
    else:
        ledger.leave_open(STORED, f"the samples do not name their states, and the target was not run over them: {found.text}")
    if named is not None and any(slot.excludes(state) for slot, state in zip(found.stored.slots, named, strict=True)):
        ledger.checks.append(
            CONTRADICTION.failed(
                f"the samples say that they store {recipe_text(named)}, measured is {found.text} ({found.how})",
                expected=list(named),
                actual=found.text,
                where=Where(file=found.held[0].file),
            )
        )
    for first, second in found.stored.repeats:
        ledger.notes.append(f"stored states {first} and {second} are equal bit for bit: one state stored twice")


def state_recipe(ledger: Ledger, found: Measurement, candidates: Sequence[Candidate], compare: Compare, *, declared: bool) -> None:
    """State ``hidden_states.boundaries`` from the samples, or take back what they contradict.

    Args:
        declared: whether the config names layer ids. Candidates that are only a trainer's default contradict nothing: a run may have chosen
            others, and no export says so.
    """
    fed, stored = ledger.value("states"), ledger.value(STORED)
    count = len(found.stored.slots)
    if fed is None:
        ledger.explain(BOUNDARIES, "fc does not tell how many states are fed")
        return
    if count < fed:
        text = f"fc takes {fed} states of width {ledger.value('target.hidden_size')}, a sample stores {count}"
        ledger.checks.append(CONTRADICTION.failed(text, expected=fed, actual=count, where=Where(tensor="fc.weight")))
        return
    if count == fed:
        _all_of_them(ledger, found, candidates, declared)
    elif stored is not None:
        _some_of_them(ledger, tuple(stored), fed, candidates, compare, declared)
    else:
        ledger.explain(BOUNDARIES, f"a sample stores {count} states, {fed} are fed, and the states are not all known: {found.text}")


def _all_of_them(ledger: Ledger, found: Measurement, candidates: Sequence[Candidate], declared: bool) -> None:
    where = Where(file=found.held[0].file)
    if found.recipe is not None:
        note = f"every stored state in stored order, named by {found.how}"
        meant = next((c.convention for c in candidates if c.recipe == found.recipe), None)
        if declared and candidates and meant is None:
            meant_text = " or ".join(f"{recipe_text(c.recipe)} ({c.convention})" for c in candidates)
            text = f"{BOUNDARIES}: the config means {meant_text}, the samples store {recipe_text(found.recipe)} ({found.how})"
            ledger.checks.append(
                CONTRADICTION.failed(text, expected=[list(c.recipe) for c in candidates], actual=list(found.recipe), where=where)
            )
        ledger.measure(BOUNDARIES, found.recipe, note + (f"; {meant}" if meant else ""), where=where)
        return
    named = found.held[0].boundaries
    if named is not None and not _excluded(found, named):
        _named_by_the_samples(ledger, named, candidates if declared else ())
        return
    stated = ledger.facts.get(BOUNDARIES)
    if stated is not None and stated.known and _excluded(found, tuple(stated.value)):
        ledger.contradict(BOUNDARIES, stated, found.text, found.how, where=where)
        ledger.forget(BOUNDARIES, f"{stated.note} says {recipe_text(stated.value)}, the samples store {found.text} ({found.how})")
        return
    left = [c for c in candidates if not _excluded(found, c.recipe)]
    if not ledger.is_known(BOUNDARIES):
        tells = f"; the samples store {found.text}" if any(s is not None for s in found.stored.states) else ""
        could = "; it could be " + " or ".join(f"{recipe_text(c.recipe)} ({c.convention})" for c in left) if left else ""
        reason = stated.reason if stated is not None and stated.reason else "the samples do not name their states"
        ledger.forget(BOUNDARIES, f"{reason}{tells}{could}; --samples with --target measures it")
    if declared and candidates and not left:
        text = (
            f"{BOUNDARIES}: the config means {' or '.join(recipe_text(c.recipe) for c in candidates)}, the samples store {found.text} "
            f"({found.how})"
        )
        ledger.checks.append(CONTRADICTION.failed(text, expected=[list(c.recipe) for c in candidates], actual=found.text, where=where))


def _named_by_the_samples(ledger: Ledger, named: Recipe, candidates: Sequence[Candidate]) -> None:
    """Samples that name their states (the neutral format): whoever wrote them knew, but it was not measured."""
    before, note = ledger.facts.get(BOUNDARIES), "metadata of the samples, every stored state in stored order"
    if before is not None and before.known and before.value != list(named):
        ledger.contradict(BOUNDARIES, before, list(named), note)
    elif candidates and named not in [c.recipe for c in candidates]:
        means = " or ".join(recipe_text(c.recipe) for c in candidates)
        text = f"{BOUNDARIES}: the config means {means}, the samples say that they store {recipe_text(named)}"
        ledger.checks.append(CONTRADICTION.failed(text, expected=[list(c.recipe) for c in candidates], actual=list(named)))
    ledger.fill(BOUNDARIES, named, "declared", note)


def _excluded(found: Measurement, recipe: Recipe) -> bool:
    slots = found.stored.slots
    return len(recipe) != len(slots) or any(slot.excludes(state) for slot, state in zip(slots, recipe, strict=True))


def _some_of_them(ledger: Ledger, stored: Recipe, fed: int, candidates: Sequence[Candidate], compare: Compare, declared: bool) -> None:
    """More states are stored than fed: the config's readings that the samples can feed, held against every other choice."""
    stated = ledger.facts.get(BOUNDARIES)
    known = tuple(stated.value) if stated is not None and stated.known else None
    readings = [known] if known is not None else [c.recipe for c in candidates]
    possible = [r for r in readings if len(r) == fed and all(s in stored for s in r)]
    named = declared or known is not None
    if named and readings and not possible:
        means = " or ".join(map(recipe_text, readings))
        text = (
            f"{BOUNDARIES}: the config means {means}, and the samples store {recipe_text(stored)}: training cannot have fed that from them"
        )
        ledger.checks.append(CONTRADICTION.failed(text, expected=[list(r) for r in readings], actual=list(stored)))
    choices = list(dict.fromkeys([*possible, *combinations(stored, fed)]))[:MOST_CHOICES]
    result = compare([(r, tuple(stored.index(s) for s in r)) for r in choices])
    if result.decided and result.best is not None:
        best = next(r for r in choices if recipe_text(r) == result.best)
        if named and possible and best not in possible:
            means = " or ".join(map(recipe_text, possible))
            text = f"{BOUNDARIES}: the config means {means}, but the drafter predicts its samples from {result.best}"
            ledger.checks.append(CONTRADICTION.failed(f"{text}: {result.reason}", expected=[list(r) for r in possible], actual=list(best)))
        ledger.know(BOUNDARIES, list(best), "measured", f"of the stored {recipe_text(stored)}: {result.reason}")
        return
    if named and len(possible) == 1 and not result.beats(recipe_text(possible[0])):
        _only_one(ledger, possible[0], stored, known is not None, candidates, result)
        return
    if named and possible and all(result.beats(recipe_text(r)) for r in possible):
        text = f"{BOUNDARIES}: the config means {' or '.join(map(recipe_text, possible))}, but other states predict the samples better"
        ledger.checks.append(CONTRADICTION.failed(f"{text}: {result.reason}", actual=result.best))
    ledger.forget(BOUNDARIES, f"{fed} of the stored states {recipe_text(stored)} are fed, and nothing tells which: {result.reason}")


def _only_one(ledger: Ledger, recipe: Recipe, stored: Recipe, known: bool, candidates: Sequence[Candidate], result: Probe) -> None:
    if known:
        return
    convention = next(c.convention for c in candidates if c.recipe == recipe)
    others = [recipe_text(c.recipe) for c in candidates if c.recipe != recipe]
    without = f"; the samples store no states for {' or '.join(others)}" if others else ""
    ledger.know(BOUNDARIES, list(recipe), "measured", f"{convention}: of the stored {recipe_text(stored)}{without}; {result.reason}")


def state_last(ledger: Ledger, found: Measurement) -> None:
    """State which state the training targets were computed from; a violation if it is not the target's last one."""
    last = found.stored.last
    if last is None:
        return
    if last.state is not None:
        _named_last(ledger, last.state, found)
    elif last.normed is not None and last.normed.answer is not Answer.UNDECIDED:
        _state_normed(ledger, last.normed.answer is Answer.YES, last.normed.text, found)
    elif found.held[0].format == NEUTRAL and found.held[0].last is not None:
        _said_last(ledger, found.held[0].last)
    _applied(ledger)
    _seed(ledger, found, last)


def _named_last(ledger: Ledger, state: State, found: Measurement) -> None:
    layers, how = ledger.value("target.layers"), found.how
    boundary = layers if state == FINAL_NORM else state
    if boundary is not None:
        ledger.know(f"{_LAST}.boundary", boundary, "measured", f"the sample's last state is {state_name(state)}: {how}")
    _state_normed(ledger, state == FINAL_NORM, f"the sample's last state is {state_name(state)}: {how}", found)
    if layers is None:
        return
    if boundary == layers:
        ledger.checks.append(LAST_STATE.passed(f"the sample's last state is {state_name(state)} of {layers} layers", actual=state))
        return
    ledger.checks.append(
        LAST_STATE.failed(
            f"training used {state_name(state)} as the target's last state, and it is not the last one: the target has {layers} layers "
            f"({how}). The samples hold {found.text} and then {state_name(state)}",
            expected=f"boundary {layers} or final_norm",
            actual=state,
            where=Where(file=found.held[0].file, key=f"{_LAST}.boundary"),
        )
    )


def _said_last(ledger: Ledger, state: State) -> None:
    """What the metadata of neutral samples say of their last state."""
    note = "metadata of the samples"
    ledger.know(f"{_LAST}.normed", state == FINAL_NORM, "declared", note)
    if state != FINAL_NORM:
        ledger.know(f"{_LAST}.boundary", state, "declared", note)


def _state_normed(ledger: Ledger, normed: bool, note: str, found: Measurement) -> None:
    """What was measured. A trainer's rule about its own dumps says nothing about a dump that is not in its own format, and where the rule
    does not hold, what the trainer then did with the state is not known either."""
    before, applied = ledger.facts.get(f"{_LAST}.normed"), f"{_LAST}.norm_applied_by_trainer"
    differs = before is not None and before.known and before.value is not normed
    if differs and not found.held[0].format.startswith(str(ledger.value("training.trainer"))):
        ledger.know(f"{_LAST}.normed", normed, "measured", note)
    else:
        ledger.measure(f"{_LAST}.normed", normed, note)
    rule = ledger.facts.get(applied)
    if differs and rule is not None and rule.evidence != "declared":
        ledger.forget(applied, f"the trainer's rule is about a last state that is {'not ' if normed else ''}normed, this one is otherwise")


def _applied(ledger: Ledger) -> None:
    """ModelOpt's file dumps carry no flag that would make the trainer norm them (hf_streaming_dataset.py:372 sets it when streaming)."""
    if ledger.value("training.trainer") == "modelopt" and ledger.is_known(f"{_LAST}.normed"):
        ledger.fill(
            f"{_LAST}.norm_applied_by_trainer", False, "code_rule", "only streaming sets base_hidden_prenorm (hf_streaming_dataset.py:372)"
        )


def _seed(ledger: Ledger, found: Measurement, last: Slot) -> None:
    """Without the target: a list of states that begins with the embedding was not written by the trainer's own generator, whose ids name
    outputs of layers, and then its end need not be the last state."""
    first = found.stored.slots[0]
    if last.state is None and first.state == 0 and found.held[0].format == "speculators.list_of_states":
        ledger.checks.append(
            LAST_STATE.undecided(
                "the samples are lists of states that begin with the embedding; the trainer feeds all but the last element and takes that "
                "one for the target's last state. Its own generator cannot write the embedding (0.3.0 custom_worker.py:44-52), so that the "
                "list may end with an earlier layer, and the targets are then not what the target says",
                required=False,
                where=Where(file=found.held[0].file),
                fix="Give --target: which state it is will be measured.",
            )
        )
