"""The way in: every check about the engine's drafter, from a bundle that holds its forwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import torch

from contract.errors import UserError
from contract.files.bundle import Bundle
from contract.findings import Check, Depth, Json
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.wiring import Owner, Reading
from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import USED
from eagle3_contract.verify.engine_drafter.bounds import DTYPES
from eagle3_contract.verify.engine_drafter.carriers import Carriers
from eagle3_contract.verify.engine_drafter.copies import copies
from eagle3_contract.verify.engine_drafter.fed import input_ids, positions
from eagle3_contract.verify.engine_drafter.fusing import fusing
from eagle3_contract.verify.engine_drafter.heads import heads
from eagle3_contract.verify.engine_drafter.layers import layers
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger, Place
from eagle3_contract.verify.engine_drafter.maps import Maps
from eagle3_contract.verify.engine_drafter.proposals import proposals
from eagle3_contract.verify.engine_drafter.record import Recorded
from eagle3_contract.verify.engine_drafter.subject import Subject, subjects
from eagle3_contract.verify.engine_drafter.variants import Kept, Variant, engine_readings, flips, of_readings
from eagle3_contract.verify.engine_drafter.verified import verified
from eagle3_contract.verify.inference import REFERENCE

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
        return
    ledger = Ledger()
    every = subjects(with_forwards, shift=training.wiring.token_shift, longest=_longest(bundle))
    _Run(bundle, loaded, training, source, target, every, ledger, measurements, target_folder, device or torch.device("cpu")).run()
    yield from _counted(bundle)
    for rule in rules.RULES[1:]:
        yield from ledger.checks(rule)


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
        self.source, self.target, self.device = Kept(source), None if target is None else Kept(target), device
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
        for subject in self.every:
            input_ids(subject, self.wiring.token_shift, self.ledger)
            positions(subject, self.wiring, self.ledger)
            copies(subject, len(self.bundle.manifest.recipe_fed), carriers, self.ledger)
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
            kinds["proposed without the drafter, for want of room"] += sum(
                len(subject.recorded.proposed[r]) for r in subject.account.undrafted
            )
            for row in subject.account.rows:
                self.ledger.compared(rules.ROWS, subject.place(row))
            for forward, says in subject.account.problems:
                place = _place(subject, forward)
                self.ledger.differs(rules.ROWS, Difference(place=place, tensor="forward", cause=f"is not accounted for: {says}"))
        used = sum(n for kind, n in kinds.items() if kind in USED)
        self.measurement["rows"] = {kind: n for kind, n in kinds.items() if n}
        self.measurement["forwards"] = sum(len(s.recorded.forwards) for s in self.every)
        self.ledger.says(rules.ROWS, f"{used} used, " + ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n and kind not in USED))

    def _forward(self) -> None:
        try:
            base = self._build(Variant("", self.wiring))
            maps = Maps.of(base)
        except UserError as error:
            reason = f"the drafter does not run under the contract: {error.message}"
            for rule in (rules.FC_OUTPUT, rules.FORWARD, rules.LOGITS, rules.PROPOSALS):
                self.ledger.unknown(rule, reason, sum(len(s.account.rows) for s in self.every))
            return
        rounded = None
        if self.dtype in DTYPES:
            rounded = Drafter(self.wiring, self.source, target_source=self.target, device=self.device, dtype=DTYPES[self.dtype])
        tensors: dict[str, Json] = {
            "fc_out": fusing(self.every, base, rounded, dtype=self.dtype, limit=self.limit, build=self._build, ledger=self.ledger)
        }
        found, story = layers(
            self.every, base, rounded, dtype=self.dtype, limit=self.limit, variants=self._variants, build=self._build, ledger=self.ledger
        )
        tensors |= found
        tensors["logits"] = heads(
            self.every, base, rounded, maps, dtype=self.dtype, limit=self.limit, variants=self._heads, build=self._build, ledger=self.ledger
        )
        proposals(self.every, maps, self.ledger)
        self.measurement["tensors"] = {name: m for name, m in tensors.items() if m}
        if story is not None:
            chosen = {"wiring": story.wiring, "cache": story.cache}
            self.measurement["explained_by"] = {what: t.words for what, t in chosen.items() if t is not None}

    def _build(self, variant: Variant) -> Drafter:
        source = self.source if variant.source is None else variant.source
        return Drafter(variant.wiring, source, target_source=self.target, device=self.device)

    @cached_property
    def _readings(self) -> list[Variant]:
        readings = engine_readings(self.bundle.manifest, self.loaded, self.target_folder)
        return list(of_readings(readings, self.wiring))

    def _variants(self) -> Iterator[Variant]:
        readings = self._readings
        yield from readings
        ropes = tuple(v.wiring.rope for v in readings)
        yield from flips(self.wiring, self.source, ropes)

    def _heads(self) -> Iterator[Variant]:
        yield from self._readings
        for owner in Owner:
            if owner is not self.wiring.lm_head:
                yield Variant(_HEADS[owner], replace(self.wiring, lm_head=owner), changed=frozenset({"lm_head"}))


_HEADS = {
    Owner.OWN: "the drafter's own head",
    Owner.TARGET: "the first rows of the target's head",
    Owner.TIED_TO_OWN: "the first rows of the drafter's embedding",
    Owner.TIED_TO_TARGET: "the first rows of the target's embedding",
}


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
        text = f"{count.recorded} {what} were recorded, the engine counted {count.counted}" + (f" ({count.by})" if count.by else "")
        if count.recorded == count.counted:
            yield rules.COUNTS.passed(text, expected=count.counted, actual=count.recorded)
        else:
            yield rules.COUNTS.failed(text, expected=count.counted, actual=count.recorded)
