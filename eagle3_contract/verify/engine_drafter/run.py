"""The way in: every check about the engine's drafter, from a bundle that holds its forwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import torch

from contract.errors import UserError
from contract.files.bundle import Bundle
from contract.files.bundle_manifest import SEEN_BY_HOOKS
from contract.findings import Check, Depth, Json, Rule
from contract.numerics.tolerance import ROUNDING, Tolerance, tolerance_for
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.names import HEAD
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.wiring import Reading
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import LEFT_OUT, USED, ZEROS
from eagle3_contract.verify.engine_drafter.as_read import engine_readings, of_readings
from eagle3_contract.verify.engine_drafter.bounds import DTYPES
from eagle3_contract.verify.engine_drafter.carriers import Carriers
from eagle3_contract.verify.engine_drafter.copies import copies
from eagle3_contract.verify.engine_drafter.fed import input_ids, positions
from eagle3_contract.verify.engine_drafter.fusing import fusing
from eagle3_contract.verify.engine_drafter.heads import heads
from eagle3_contract.verify.engine_drafter.layers import layers
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger, Place
from eagle3_contract.verify.engine_drafter.maps import Maps
from eagle3_contract.verify.engine_drafter.overrides import Kept
from eagle3_contract.verify.engine_drafter.proposals import proposals
from eagle3_contract.verify.engine_drafter.record import Recorded
from eagle3_contract.verify.engine_drafter.subject import Subject, subjects
from eagle3_contract.verify.engine_drafter.variants import Variant, flips, mendings, other_heads
from eagle3_contract.verify.engine_drafter.verified import verified
from eagle3_contract.verify.inference import REFERENCE

ROOM: Final = (
    "vLLM 0.32.0 leaves the drafter out for the whole batch while one of its sequences, with its drafts, is too near max_model_len "
    "(v1/worker/gpu_model_runner.py:4288); what the other requests commit meanwhile never enters the drafter's cache. Serve with a "
    "max_model_len that no request comes near."
)
AGAIN: Final = "run again after a preemption (among the committed)"
LENGTH_FLAGS = ("max_model_len", "context_length")
"""Flags that say how long a sequence may be: vLLM's and SGLang's."""


def checks(
    bundle: Bundle,
    loaded: LoadedContract,
    training: Reading,
    source: WeightSource,
    target: WeightSource | None,
    measurements: dict[str, Json],
    *,
    target_folder: str | None = None,
    device: torch.device | None = None,
) -> Iterator[Check]:
    """Hold the engine's drafter against our forward on what it was really fed.

    Args:
        bundle: the capture.
        loaded: the contract.
        training: its own reading: the wiring that the engine should have.
        source: the drafter's weights.
        target: the target's, for an embedding or head that is taken from it.
        measurements: gets ``engine_drafter``.
        target_folder: for the engine's reading, which may depend on the target's config.
        device: where our forward runs.

    A bundle without forwards of the drafter gives nothing, or one optional unknown if an engine with a drafter of its own wrote it.
    """
    with_forwards = [Recorded(r) for r in bundle.requests if r.info.forwards]
    if not with_forwards:
        if bundle.manifest.engine.name != REFERENCE:
            yield rules.FORWARD.undecided("the capture holds no forward of the drafter", at=Depth.VERIFY, required=False)
        yield from _counted(bundle)
        return
    ledger = Ledger()
    every = subjects(with_forwards, shift=training.wiring.token_shift, longest=_longest(bundle))
    _Run(bundle, loaded, training, source, target, every, ledger, measurements, target_folder, device or torch.device("cpu")).run()
    yield from _counted(bundle)
    yield from _without_forwards(bundle)
    for rule in rules.RULES[1:]:
        yield from ledger.checks(rule)


def _without_forwards(bundle: Bundle) -> Iterator[Check]:
    """Requests that drafted, of whose drafter nothing is there: where it is there of others, theirs is missing."""
    without = [r for r in bundle.requests if not r.info.forwards and "round.proposed" in r.tensors]
    if without:
        text = (
            f"{len(without)} of {len(bundle.requests)} requests drafted and hold no forward of the drafter ({without[0].id} is the first): "
            "nothing of theirs could be compared"
        )
        yield rules.ROWS.undecided(text, at=Depth.VERIFY, fix="Capture again: a capture of the whole run holds them.")


class _Run:
    def __init__(
        self,
        bundle: Bundle,
        loaded: LoadedContract,
        training: Reading,
        source: WeightSource,
        target: WeightSource | None,
        every: Sequence[Subject],
        ledger: Ledger,
        measurements: dict[str, Json],
        target_folder: str | None,
        device: torch.device,
    ) -> None:
        self.bundle, self.loaded, self.every, self.ledger = bundle, loaded, every, ledger
        self.source: WeightSource = Kept(source)
        self.target = None if target is None else Kept(target)
        self.device = device
        self.dtype = bundle.manifest.engine.dtype.removeprefix("torch.")
        self.wiring = replace(training.wiring, states=len(bundle.manifest.recipe_fed))
        self.limit = loaded.contract.tolerances.logits
        self.target_folder = target_folder
        self.measurement: dict[str, Json] = {}
        measurements["engine_drafter"] = self.measurement

    def run(self) -> None:
        self._rows()
        carriers = Carriers(self.every)
        accepted = 0
        input_ids(self.every, self.wiring.token_shift, self.ledger)
        for subject in self.every:
            positions(subject, self.wiring, self.ledger)
            states = len(self.bundle.manifest.recipe_fed)
            copies(subject, states, carriers, self.ledger, fc=self.wiring.fc_applied, rounding=self._rounding)
            accepted += verified(subject, self.ledger)
        rounds = sum(len([e for e in s.recorded.emitted if e]) for s in self.every)
        self.measurement |= {"requests": len(self.every), "rounds": rounds, "accepted": accepted}
        self._forward()
        if (first := self.ledger.first()) is not None:
            rule, d = first
            self.measurement["first"] = {"rule": rule, "tensor": d.tensor, **d.place.as_json()}

    def _rows(self) -> None:
        kinds: Counter[str] = Counter()
        for subject in self.every:
            kinds.update(row.kind.value for row in subject.account.rows)
            kinds[AGAIN] += sum(row.again for row in subject.account.rows)
            kinds["proposed without the drafter, for want of room"] += sum(
                len(subject.recorded.proposed[r]) for r in subject.account.undrafted
            )
            for row in subject.account.rows:
                self.ledger.compared(rules.ROWS, subject.place(row))
            for forward, says in subject.account.problems:
                place, fix = _place(subject, forward), ROOM if says in (LEFT_OUT, ZEROS) else None
                holes = subject.account.never_fed.get(forward, []) if forward is not None and says == LEFT_OUT else []
                told = "; ".join(f"the drafter was not run for round {r}: tokens {a} to {b} were never fed" for r, a, b in holes)
                d = Difference(place=place, tensor="forward", cause=f"is not accounted for: {says}", says=told, fix=fix)
                self.ledger.differs(rules.ROWS, d)
        used = sum(n for kind, n in kinds.items() if kind in USED)
        self.measurement["rows"] = {kind: n for kind, n in kinds.items() if n}
        self.measurement["forwards"] = sum(len(s.recorded.forwards) for s in self.every)
        self.ledger.says(rules.ROWS, f"{used} used, " + ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n and kind not in USED))

    def _forward(self) -> None:
        base, assumed = self._base()
        if base is None:
            return
        try:
            maps = Maps.of(base)
        except UserError as error:
            self._cannot(error.message, (rules.LOGITS, rules.PROPOSALS))
            maps = None
        rounded = None
        if self.dtype in DTYPES and assumed is None:
            rounded = Drafter(self.wiring, self.source, target_source=self.target, device=self.device, dtype=DTYPES[self.dtype])
        tensors: dict[str, Json] = {
            "fc_out": fusing(self.every, base, rounded, dtype=self.dtype, limit=self.limit, build=self._build, ledger=self.ledger)
        }
        found = layers(
            self.every, base, rounded, dtype=self.dtype, limit=self.limit, variants=self._variants, build=self._build, ledger=self.ledger
        )
        tensors |= found.measurement
        if maps is not None:
            tensors["logits"] = heads(
                self.every,
                base,
                rounded,
                maps,
                found.finals,
                dtype=self.dtype,
                limit=self.limit,
                variants=self._heads,
                build=self._build,
                ledger=self.ledger,
            )
            proposals(self.every, maps, self.ledger)
        self.measurement["tensors"] = {name: m for name, m in tensors.items() if m}
        if found.story is not None:
            chosen = {"wiring": found.story.wiring, "cache": found.story.cache}
            self.measurement["explained_by"] = {what: t.words for what, t in chosen.items() if t is not None}
        if assumed is not None:
            self._assumed(*assumed)

    def _base(self) -> tuple[Drafter | None, tuple[Variant, str] | None]:
        """The drafter under the contract; where it does not run, under the first thing that the engine may have made of the files."""
        try:
            return self._build(Variant("", self.wiring)), None
        except UserError as error:
            reason = error.message
        for variant in (*self._readings, *mendings(self.wiring, self.source)):
            try:
                found = self._build(variant)
            except UserError:
                continue
            self.wiring = variant.wiring
            if variant.source is not None:
                self.source = variant.source
            return found, (variant, reason)
        self._cannot(reason, (rules.FC_OUTPUT, rules.FORWARD, rules.LOGITS, rules.PROPOSALS))
        return None, None

    def _cannot(self, reason: str, of: Sequence[Rule]) -> None:
        for rule in of:
            rows = sum(len(s.account.rows) for s in self.every)
            self.ledger.unknown(rule, f"the drafter does not run under the contract: {reason}", rows)

    def _assumed(self, variant: Variant, reason: str) -> None:
        """Everything was compared under another wiring than the contract's, for that one does not run: where it fits, it is the finding."""
        about = (rules.FC_OUTPUT, rules.FORWARD, rules.WIRING, rules.KV, rules.LOGITS)
        if any(self.ledger.differences(rule) for rule in about):
            return
        tensor = "logits" if variant.changed <= {"lm_head", HEAD} else "final_normed"
        for subject in self.every:
            for _, row in subject.used():
                place = subject.place(row)
                self.ledger.compared(rules.WIRING, place)
                cause = f"is not the contract's, which does not run on these files ({reason}); {variant.name} gives it"
                d = Difference(place=place, tensor=tensor, cause=cause, fix=variant.because or None)
                self.ledger.differs(rules.WIRING, d)

    def _build(self, variant: Variant) -> Drafter:
        source: WeightSource = self.source if variant.source is None else variant.source
        target = self.target if variant.target is None else variant.target
        return Drafter(variant.wiring, source, target_source=target, device=self.device)

    @cached_property
    def _rounding(self) -> float:
        """How far a state of the target may be from itself, run once more."""
        bound = tolerance_for(self.dtype, layers=self.bundle.manifest.layers) if self.dtype in ROUNDING else None
        return bound.worst if isinstance(bound, Tolerance) else 0.0

    @cached_property
    def _readings(self) -> list[Variant]:
        readings = engine_readings(self.bundle.manifest, self.loaded, self.target_folder)
        return list(of_readings(readings, self.wiring))

    def _variants(self) -> Iterator[Variant]:
        readings = self._readings
        yield from readings
        ropes = tuple(v.wiring.rope for v in readings)
        yield from flips(self.wiring, self.source, self.target, ropes)

    def _heads(self) -> Iterator[Variant]:
        yield from self._readings
        yield from other_heads(self.wiring)


def _place(subject: Subject, forward: int | None) -> Place:
    if forward is None:
        rows = subject.account.rows
        return subject.place(rows[-1])
    return subject.place(subject.account.rows_of(forward)[0])


def _longest(bundle: Bundle) -> int | None:
    flags = bundle.manifest.engine.flags
    return next((int(v) for name in LENGTH_FLAGS if (v := flags.get(name, "")).isdecimal()), None)


def _counted(bundle: Bundle) -> Iterator[Check]:
    """What the engine counted against what was recorded."""
    for what, count in bundle.manifest.counts.items():
        if count.counted is None:
            continue
        if count.by == SEEN_BY_HOOKS and 0 < count.recorded < count.counted:
            left = f"{count.recorded} of {count.counted} {count.by} are in the capture; the others were not finished, or not chosen"
            yield rules.COUNTS.passed(left, expected=count.counted, actual=count.recorded)
            continue
        text = f"{count.recorded} {what} were recorded, the engine counted {count.counted}" + (f" ({count.by})" if count.by else "")
        if count.recorded == count.counted:
            yield rules.COUNTS.passed(text, expected=count.counted, actual=count.recorded)
        else:
            yield rules.COUNTS.failed(text, expected=count.counted, actual=count.recorded)
