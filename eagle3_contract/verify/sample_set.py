"""The training samples of a contract: which files they are, whether they are the listed ones, and what they store.

Legend: T tokens, K stored states, G target hidden size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from contract.errors import UserError
from contract.files.paths import open_path
from contract.findings import Check, Depth, Where, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from contract.statement import fact
from contract.words import first_few
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.spec import TargetState
from eagle3_contract.model.states import FINAL_NORM, Recipe, State, recipe_text, state_name
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.trainers.samples import SampleReader, find_samples
from eagle3_contract.verify import rules

FEWEST: Final = 8
"""Tokens from which on rows of a sample are held against each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSet:
    """The sample files that can be used, in order; ``picked`` are the indices of the recipe's states among the
    stored ones, ``target_state`` is what the contract says of the last one."""

    root: Path
    files: Sequence[Path]
    stored: Recipe
    picked: tuple[int, ...]
    allow_pickle: bool
    target_state: TargetState

    def read(self, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[TrainingSample | UserError]:
        """Every sample in order, or the error that makes it unusable; one is held at a time."""
        with SampleReader(allow_pickle=self.allow_pickle, root=self.root, limits=limits) as reader:
            for file in self.files:
                try:
                    yield reader.load(file)
                except UserError as error:
                    yield error


class OtherSamples:
    """Samples by name, read when they are asked for; the latest few are kept. For the question whose states a slot carries."""

    KEPT: Final = 4

    def __init__(self, samples: SampleSet, limits: Limits = DEFAULT_LIMITS) -> None:
        self._samples, self._limits = samples, limits
        self._kept: OrderedDict[str, TrainingSample] = OrderedDict()

    def names(self, besides: str, count: int) -> list[str]:
        """At most ``count`` other samples: those that follow ``besides``, and around to the beginning."""
        names = [p.relative_to(self._samples.root).as_posix() for p in self._samples.files]
        at = names.index(besides) + 1 if besides in names else 0
        return [n for n in names[at:] + names[:at] if n != besides][:count]

    def state(self, name: str, index: int) -> Tensor:
        """Stored state ``index`` [T, G] of a sample. Raises like ``SampleReader.load``, or IndexError if it stores fewer."""
        if name not in self._kept:
            with SampleReader(allow_pickle=self._samples.allow_pickle, root=self._samples.root, limits=self._limits) as reader:
                self._kept[name] = reader.load(self._samples.root / name)
            if len(self._kept) > self.KEPT:
                self._kept.popitem(last=False)
        return self._kept[name].states_THk[index]


def open_samples(
    loaded: LoadedContract, samples: str | None, recipe: Recipe, *, allow_pickle: bool, limits: Limits = DEFAULT_LIMITS
) -> tuple[SampleSet | None, list[Check]]:
    """Find the samples of a contract and compare them with its list.

    Args:
        loaded: the contract.
        samples: ``--samples``; None takes the contract's own folder.
        recipe: the states that training fed.
        allow_pickle: whether pickle-based samples may be read.

    Returns:
        The usable samples (None if there is none), and the checks.
    """
    stated = loaded.contract.training.samples
    if samples is None and stated.path is None:
        return None, [
            rules.SAMPLES_THERE.undecided(
                "no samples were given, and the contract commits none", at=Depth.VERIFY, fix=rules.SAMPLES_THERE.remedy
            )
        ]
    root = Path(samples) if samples is not None else loaded.folder / str(stated.path)
    try:
        found = find_samples(root, limits=limits)
    except UserError as error:
        return None, [check_from_error(error)]
    if not found:
        return None, [
            rules.SAMPLES_THERE.undecided(
                f"{root} holds no samples",
                at=Depth.VERIFY,
                where=Where(file=str(root)),
                fix=rules.SAMPLES_THERE.remedy,
                expected=stated.count,
            )
        ]
    base = root if root.is_dir() else root.parent
    checks = [*_listed(loaded, base, found), *_digests(loaded, base, found)]
    stored = fact(stated.states)
    states: Recipe = tuple(stored.value) if stored.known else recipe
    if not stored.known:
        checks.append(
            rules.SAMPLES_LAYOUT.undecided(
                f"which states a sample stores is unknown ({stored.reason}); taken to be the recipe",
                at=Depth.VERIFY,
                where=loaded.document.where("training.samples.states"),
                fix=rules.SAMPLES_LAYOUT.remedy,
            )
        )
    lacking = [s for s in recipe if s not in states]
    if lacking:
        checks.append(
            rules.SAMPLES_LAYOUT.failed(
                f"the recipe {recipe_text(recipe)} needs states that the samples do not store ({recipe_text(states)})",
                expected=list(recipe),
                actual=list(states),
                where=loaded.document.where("training.samples.states"),
            )
        )
        return None, checks
    picked = tuple(states.index(s) for s in recipe)
    return SampleSet(
        root=base, files=found, stored=states, picked=picked, allow_pickle=allow_pickle, target_state=loaded.contract.training.target_state
    ), checks


def _listed(loaded: LoadedContract, base: Path, found: Sequence[Path]) -> Iterator[Check]:
    stated = loaded.contract.training.samples
    where = loaded.document.where("training.samples.manifest")
    names = {p.relative_to(base).as_posix() for p in found}
    if stated.count != len(stated.manifest):
        yield rules.SAMPLES_LISTED.failed(
            f"the contract counts {stated.count} samples and lists {len(stated.manifest)}",
            expected=stated.count,
            actual=len(stated.manifest),
            where=loaded.document.where("training.samples.count"),
        )
    if not stated.manifest:
        yield rules.SAMPLES_LISTED.skipped(f"the contract lists no samples; {len(names)} were given", where=where)
        return
    missing, extra = sorted(stated.manifest.keys() - names), sorted(names - stated.manifest.keys())
    if missing:
        yield rules.SAMPLES_LISTED.failed(
            f"{_samples(missing, 'listed ')} not in {base}: {first_few(missing)}",
            expected=len(stated.manifest),
            actual=len(stated.manifest) - len(missing),
            where=loaded.document.where(("training", "samples", "manifest", missing[0])),
            evidence={"missing": missing},
        )
    if extra:
        yield rules.SAMPLES_LISTED.failed(
            f"{_samples(extra)} in {base} without being listed in the contract: {first_few(extra)}",
            expected=len(stated.manifest),
            actual=len(names),
            where=where,
            evidence={"not_listed": extra},
        )
    if not missing and not extra:
        yield rules.SAMPLES_LISTED.passed(
            f"all {len(names)} listed samples are there, and no other", where=where, expected=len(names), actual=len(names)
        )


def _samples(names: Sequence[str], kind: str = "") -> str:
    return f"1 {kind}sample is" if len(names) == 1 else f"{len(names)} {kind}samples are"


def _digests(loaded: LoadedContract, base: Path, found: Sequence[Path]) -> Iterator[Check]:
    manifest = loaded.contract.training.samples.manifest
    equal = 0
    for path in found:
        name = path.relative_to(base).as_posix()
        if name not in manifest:
            continue
        try:
            with open_path(path) as opened:
                digest = f"sha256:{opened.sha256()}"
        except UserError as error:
            yield check_from_error(error)
            continue
        if digest == manifest[name]:
            equal += 1
        else:
            yield rules.SAMPLES_DIGEST.failed(
                f"{name} is not the sample that the contract lists",
                expected=manifest[name],
                actual=digest,
                where=loaded.document.where(("training", "samples", "manifest", name)),
            )
    if equal:
        yield rules.SAMPLES_DIGEST.passed(f"{equal} samples have their listed digests")


def layout_problem(sample: TrainingSample, samples: SampleSet, hidden_size: int) -> Check | None:
    """A failed check if the sample does not store what the contract says, else None."""
    where = Where(file=sample.file, sample=sample.name)
    if len(sample.states_THk) != len(samples.stored):
        return rules.SAMPLES_LAYOUT.failed(
            f"{sample.name} stores {len(sample.states_THk)} states, the contract says {len(samples.stored)} "
            f"({recipe_text(samples.stored)})",
            expected=len(samples.stored),
            actual=len(sample.states_THk),
            where=where,
        )
    widths = sorted({state.shape[1] for state in sample.states_THk})
    if widths != [hidden_size]:
        return rules.SAMPLES_LAYOUT.failed(
            f"{sample.name} stores states of width {widths}, the target's hidden size is {hidden_size}",
            expected=hidden_size,
            actual=widths,
            where=where,
        )
    if sample.boundaries is not None and tuple(sample.boundaries) != samples.stored:
        return rules.SAMPLES_LAYOUT.failed(
            f"{sample.name} says of itself that it stores {recipe_text(sample.boundaries)}, the contract says "
            f"{recipe_text(samples.stored)}",
            expected=list(samples.stored),
            actual=list(sample.boundaries),
            where=where,
        )
    return _alike(sample, samples.stored, where) or _last_problem(sample, samples.target_state, where)


def _alike(sample: TrainingSample, stored: Recipe, where: Where) -> Check | None:
    """A failed check if rows far apart hold the same state, bit for bit, though their tokens differ.

    Looked at are three rows among those that the loss counts, else among those that are no padding. Boundary 0 does not count: the same
    token has the same embedding. Nor do equal tokens: attention over one value gives that value, wherever it stands.
    """
    rows = np.flatnonzero(sample.loss_mask_T.numpy()) if sample.loss_mask_T is not None else np.arange(0)
    if len(rows) < FEWEST:
        rows = np.arange(sample.tokens) if sample.document_ids_T is None else np.flatnonzero(sample.document_ids_T.numpy() >= 0)
    if len(rows) < FEWEST:
        return None
    chosen = [int(rows[len(rows) * i // 4]) for i in (1, 2, 3)]
    if len(np.unique(sample.input_ids_T.numpy()[chosen])) == 1:
        return None
    named = [(state_name(s), x_TG) for s, x_TG in zip(stored, sample.states_THk, strict=True) if s != 0]
    if sample.last_TG is not None:
        named.append(("the last state", sample.last_TG))
    for name, x_TG in named:
        first_G = x_TG[chosen[0]]
        if all(torch.equal(first_G, x_TG[row]) for row in chosen[1:]):
            what = "the same values" if bool(first_G.any()) else "zeros"
            return rules.SAMPLES_ALIKE.failed(
                f"{sample.name}: {name} holds {what} in the rows {', '.join(map(str, chosen))}, whose tokens differ",
                where=replace(where, row=chosen[0]),
            )
    return None


def _last_problem(sample: TrainingSample, stated: TargetState, where: Where) -> Check | None:
    """A failed check if the sample says of its last state what the contract denies."""
    normed, boundary = fact(stated.normed), fact(stated.boundary)
    if sample.last is None:
        return None
    is_normed = sample.last == FINAL_NORM
    wrong = (normed.known and normed.value is not is_normed) or (boundary.known and not is_normed and boundary.value != sample.last)
    if not wrong:
        return None
    claimed = f"boundary {boundary.value}, {'normed' if normed.value else 'not normed'}"
    return rules.SAMPLES_LAYOUT.failed(
        f"{sample.name} says of itself that its last state is {state_name(sample.last)}, the contract says {claimed}",
        expected=claimed,
        actual=state_name(sample.last),
        where=where,
    )


def stored_states(sample: TrainingSample, samples: SampleSet) -> dict[State, int]:
    """State to its index among the stored ones."""
    return {state: index for index, state in reversed(list(enumerate(samples.stored[: len(sample.states_THk)])))}
