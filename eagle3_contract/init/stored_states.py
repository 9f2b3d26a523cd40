"""Which boundary each stored state is: by the target's own forward over the stored tokens, and by tests that need no forward.

Legend: T tokens, K states, G target hidden size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from torch import Tensor

from contract.errors import ToolError
from contract.files.torch_tensors import load_tensor
from contract.numerics.explanations import Attribution
from contract.numerics.matching import Candidate, attribute_all
from contract.numerics.tolerance import ROUNDING, Tolerance, tolerance_for
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.rules import NOT_COMPARED, OTHER_TARGET
from eagle3_contract.init.target import OpenTarget, rows_of
from eagle3_contract.model.states import State, state_name
from eagle3_contract.trainers.measure import Answer, Measured, is_embedding, is_normed, repeated
from eagle3_contract.trainers.sample import TrainingSample

RUN_SAMPLES: Final = 4
RUN_TOKENS: Final = 512
"""Samples, and tokens of each, over which the target is run: a state is itself in every row."""
LAST: Final = "last"
MEMORY_SHARE: Final = 0.6
"""A target whose weights take more of the machine's memory than this is not loaded."""


@dataclass(slots=True)
class Slot:
    """One stored state. ``possible``: the states it can be, None if nothing was measured. ``text`` says how it is known."""

    possible: frozenset[State] | None = None
    embedding: Measured | None = None
    normed: Measured | None = None
    text: str = ""

    @property
    def state(self) -> State | None:
        """The state it is, if that is beyond doubt."""
        if self.possible is not None and len(self.possible) == 1:
            return next(iter(self.possible))
        return 0 if self.embedding is not None and self.embedding.answer is Answer.YES else None

    def excludes(self, state: State) -> bool:
        """Whether it was measured not to be that state."""
        if self.state is not None:
            return self.state != state
        if self.possible is not None:
            return state not in self.possible
        return state == 0 and self.embedding is not None and self.embedding.answer is Answer.NO


@dataclass(slots=True, kw_only=True)
class Stored:
    """All stored states, in stored order, and the last one. ``ran`` tells whether the target was run; ``repeats`` which are equal."""

    slots: list[Slot]
    last: Slot | None
    ran: bool = False
    repeats: list[tuple[int, int]] = field(default_factory=list)

    @property
    def states(self) -> list[State | None]:
        return [s.state for s in self.slots]


def measure_states(
    ledger: Ledger, held: Sequence[TrainingSample], target: OpenTarget | None, own_embedding: Callable[[Tensor], Tensor] | None
) -> Stored:
    """Measure what the held samples store.

    Args:
        held: samples of one layout.
        target: the target, if it was given.
        own_embedding: the drafter's embedding rows, asked where the target's are not at hand; only a yes of theirs counts.
    """
    count = len(held[0].states_THk)
    stored = Stored(slots=[Slot() for _ in range(count)], last=Slot() if held[0].last_TG is not None else None)
    stored.repeats = [pair for pair in repeated(held[0].states_THk) if all(pair in repeated(s.states_THk) for s in held[1:])]
    _by_table(stored, held, target, own_embedding)
    _by_norm(stored, held, target)
    if target is not None and target.checkpoint is not None:
        _by_forward(ledger, stored, held, target)
    return stored


def _state(index: int, sample: TrainingSample) -> Tensor | None:
    return sample.states_THk[index]


def _itself(x: Tensor) -> Tensor:
    return x


def _all_slots(stored: Stored) -> list[tuple[str, Slot, Callable[[TrainingSample], Tensor | None]]]:
    found: list[tuple[str, Slot, Callable[[TrainingSample], Tensor | None]]] = [
        (str(i), slot, partial(_state, i)) for i, slot in enumerate(stored.slots)
    ]
    return [*found, (LAST, stored.last, lambda s: s.last_TG)] if stored.last is not None else found


def _by_table(stored: Stored, held: Sequence[TrainingSample], target: OpenTarget | None, own: Callable[[Tensor], Tensor] | None) -> None:
    table = None if target is None or target.embedding is None else target.embedding
    rows = own if table is None else rows_of(table)
    if rows is None:
        return
    limit = table.shape[0] if table is not None else None
    for _, slot, state_of in _all_slots(stored):
        answers = []
        for sample in held:
            state_TG = state_of(sample)
            if state_TG is None or (limit is not None and int(sample.input_ids_T.max()) >= limit):
                return
            answers.append(is_embedding(state_TG, sample.input_ids_T, rows))
        verdict = _together(answers)
        # Another table than the target's proves nothing when it differs: the drafter's own may have been trained.
        if table is not None or verdict.answer is Answer.YES:
            slot.embedding = verdict


def _by_norm(stored: Stored, held: Sequence[TrainingSample], target: OpenTarget | None) -> None:
    if target is None or target.final_norm is None:
        return
    weight_G = load_tensor(target.final_norm)
    for _, slot, state_of in _all_slots(stored):
        states = [state_of(s) for s in held]
        if all(x is not None and x.shape[1] == weight_G.shape[0] for x in states):
            slot.normed = _together([is_normed(x, weight_G, weight_offset=target.norm_offset) for x in states if x is not None])


def _together(answers: Sequence[Measured]) -> Measured:
    """What all samples say: yes or no only if all do."""
    kinds = {a.answer for a in answers}
    return answers[0] if len(kinds) == 1 else next((a for a in answers if a.answer is Answer.NO), answers[0])


def _by_forward(ledger: Ledger, stored: Stored, held: Sequence[TrainingSample], target: OpenTarget) -> None:
    """Run the target over the first tokens of some samples, and name every stored state."""
    assert target.checkpoint is not None
    size = sum(ref.nbytes for ref in target.tensors.values())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > MEMORY_SHARE * memory:
        text = f"the target's weights take {size / 1e9:.0f} GB, too much for this machine: the stored states were not compared with its own"
        ledger.checks.append(NOT_COMPARED.failed(text, fix="Run init where the target fits."))
        return
    from eagle3_contract.engines.target import load_target

    try:
        model = load_target(target.path)
    except ToolError as error:
        ledger.checks.append(NOT_COMPARED.failed(f"the target was not run: {error.message}", fix=error.fix))
        return
    tolerance = _tolerance(str(held[0].states_THk[0].dtype).removeprefix("torch."), model.dtype, model.layers)
    possible: dict[str, frozenset[State]] = {}
    said: dict[str, str] = {}
    for sample in [s for s in held if s.document_ids_T is None][:RUN_SAMPLES]:
        ids_L = sample.input_ids_T[:RUN_TOKENS]
        states = model.forward(ids_L).states
        observed = {
            name: x[: len(ids_L)].to(model.device) for name, _, state_of in _all_slots(stored) if (x := state_of(sample)) is not None
        }
        candidates = [Candidate(state_name(state), partial(_itself, x)) for state, x in states.items()]
        for name, found in attribute_all(observed, candidates, tolerance).items():
            now = _possible(found, list(states))
            possible[name] = now if name not in possible else possible[name] & now
            said.setdefault(name, found.reason)
    if not possible:
        ledger.checks.append(NOT_COMPARED.failed("the samples are packed documents: the target was not run over them"))
        return
    stored.ran = True
    for name, slot, _ in _all_slots(stored):
        slot.possible, slot.text = possible[name], said[name]
    _is_this_target(ledger, stored)


def _possible(found: Attribution, states: Sequence[State]) -> frozenset[State]:
    return frozenset(s for s in states if found.could_be(state_name(s)))


def _tolerance(stored: str, ran: str, layers: int) -> Tolerance:
    coarsest = max((d for d in (stored, ran) if d in ROUNDING), key=lambda d: ROUNDING[d], default="bfloat16")
    found = tolerance_for(coarsest, layers=layers)
    assert isinstance(found, Tolerance)  # without a measured floor there is always one
    return found


def _is_this_target(ledger: Ledger, stored: Stored) -> None:
    lost = [(name, slot) for name, slot, _ in _all_slots(stored) if not slot.possible]
    for name, slot in lost:
        what = "the last state" if name == LAST else f"stored state {name}"
        ledger.checks.append(
            OTHER_TARGET.failed(
                f"{what} is none of the target's boundaries: {slot.text}", expected="a boundary or final_norm", actual=slot.text
            )
        )
    if not lost:
        ledger.checks.append(
            OTHER_TARGET.passed("every stored state is one of the target's: " + "; ".join(s.text for _, s, _ in _all_slots(stored)))
        )
