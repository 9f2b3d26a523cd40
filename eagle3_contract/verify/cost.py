"""What an engine's other reading costs: the training samples through the drafter as training ran it and as the engine would run it.

States that the engine feeds and no sample stores are captured with transformers, if the target's folder is at hand.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.files.bundle import open_bundle
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.states import Recipe, recipe_text
from eagle3_contract.model.wiring import Reading
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.load import load_drafter
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify.bootstrap import CONFIDENCE
from eagle3_contract.verify.capture_set import Requests
from eagle3_contract.verify.cost_rules import COST
from eagle3_contract.verify.figures import PathFigures, paired_bootstrap
from eagle3_contract.verify.paths import Path as DraftPath
from eagle3_contract.verify.sample_set import SampleSet, open_samples, stored_states
from eagle3_contract.verify.steps import steps_and_drafts

TARGET_NEEDED: Final = "drafter.target-needed"


def cost_checks(
    loaded: LoadedContract,
    samples: str | Path,
    engines: Sequence[str],
    *,
    target: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    allow_pickle: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Check]:
    """One check per engine and runner: "expect accepted length 1.61 -> 1.22".

    Args:
        loaded: the contract.
        samples: folder or file of training samples.
        engines: references, as in ``check``.
        target: the target's folder, for an embedding or head that the drafter takes from it, and for states that no sample stores.
        config: the target's config.
        flags: serving flags by engine reference.
    """
    try:
        training = resolve(loaded.contract)
        opened, checks = open_samples(loaded, str(samples), training.recipe, allow_pickle=allow_pickle, limits=limits)
        if opened is None:
            yield checks[-1]
            return
        view = load_drafter(loaded.drafter_folder, limits=limits, allow_pickle=allow_pickle)
        readings = [r for e in engines for r in read(view, e, config, (flags or {}).get(e, {}))]
        with ExitStack() as stack:
            replay = _Replay(loaded, training, opened, target, allow_pickle, limits, stack)
            for reading in readings:
                yield replay.cost(reading)
    except UserError as error:
        if error.rule == TARGET_NEEDED:
            yield COST.undecided(f"what a difference costs cannot be said: {error.message}", required=False, fix=error.fix)
        else:
            yield check_from_error(error, dimension="alignment")


class _Replay:
    """The training path, run once, and the way to each engine's."""

    def __init__(
        self,
        loaded: LoadedContract,
        training: Reading,
        samples: SampleSet,
        target: str | Path | None,
        allow_pickle: bool,
        limits: Limits,
        stack: ExitStack,
    ) -> None:
        self.loaded, self.training, self.samples, self.limits, self.stack = loaded, training, samples, limits, stack
        self.folder = Path(target) if target is not None and Path(target).is_dir() else None
        self.source: WeightSource = CheckpointSource(
            Checkpoint.open(loaded.drafter_folder, limits=limits, strict=False, allow_pickle=allow_pickle)
        )
        self.target: WeightSource | None = (
            None if self.folder is None else CheckpointSource(Checkpoint.open(self.folder, limits=limits, strict=False))
        )
        self.captures: dict[Recipe, Path] = {}
        self.steps = steps_and_drafts(loaded.contract)[1]
        self.right = self._run(training, None)

    def cost(self, reading: EngineReading) -> Check:
        """Both lengths for one reading, or why they cannot be had."""
        done = to_reading(reading)
        evidence: dict[str, Any] = {"engine": reading.reader}
        before = self.right.length.length
        if isinstance(done, CannotRun):
            return COST.undecided(f"what it costs cannot be said: {done.reason}", required=False, evidence=evidence)
        done = replace(done, rollout=self.training.rollout)
        if done.recipe == self.training.recipe and done.wiring == replace(self.training.wiring, window_follows_steps=True):
            return COST.passed(f"{reading.reader}: expect accepted length {before:.2f}, as in training", actual=before, evidence=evidence)
        try:
            after = self._run(done, reading.reader)
        except UserError as error:
            return COST.undecided(
                f"what {reading.reader} costs cannot be said: {error.message}", required=False, fix=error.fix, evidence=evidence
            )
        return self._compared(reading.reader, done.recipe, after)

    def _compared(self, reader: str, recipe: Recipe, after: PathFigures) -> Check:
        both = [n for n in self.right.lengths if n in after.lengths]
        if not both:
            missing = [s for s in recipe if s not in self.samples.stored]
            return COST.undecided(
                f"what {reader} costs cannot be said: it feeds {recipe_text(recipe)}, and no sample stores {recipe_text(missing)}",
                required=False,
                fix="Give the target's folder with --target, or samples that store these states.",
                evidence={"engine": reader},
            )
        ours, theirs = self.right.length.length, after.length.length
        low, high = paired_bootstrap([(self.right.lengths[n], after.lengths[n]) for n in both])
        says = (
            f"{reader}: expect accepted length {ours:.2f} -> {theirs:.2f} ({self.steps} drafts, {len(both)} samples, difference "
            f"{ours - theirs:+.2f}, {CONFIDENCE:.0%} interval {low:+.2f} to {high:+.2f})"
        )
        evidence = {
            "engine": reader,
            "training": ours,
            "served": theirs,
            "interval": [low, high],
            "samples": len(both),
            "recipe": list(recipe),
        }
        return (COST.failed if low > 0 else COST.passed)(says, expected=ours, actual=theirs, evidence=evidence)

    def _run(self, reading: Reading, imitate: str | None) -> PathFigures:
        """The samples under one reading; those whose states are not at hand are left out."""
        path = DraftPath.build(reading, self.source, self.target, torch.device("cpu"))
        figures, targets_D = PathFigures(self.steps, self.steps), path.drafter.target_ids.cpu()
        requests = self._captured(reading.recipe, imitate)
        for sample in self.samples.read(limits=self.limits):
            if isinstance(sample, UserError):
                raise sample
            states = self._states(sample, reading.recipe, requests)
            if states is None:
                continue
            logits = path.run(sample.input_ids_T, states, self.steps, document_ids_T=sample.document_ids_T)
            figures.add(sample.name, logits, targets_D, sample.input_ids_T, sample.loss_mask_T, None, None, sample.document_ids_T)
        return figures

    def _captured(self, recipe: Recipe, imitate: str | None) -> Requests | None:
        """What the target itself hands over under this recipe, if samples do not store it all and the target is there."""
        if imitate is None or self.folder is None or all(s in self.samples.stored for s in recipe):
            return None
        from eagle3_contract.engines.run import capture_now  # transformers is needed only here

        if recipe not in self.captures:
            out = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="contract-cost-"))) / "capture"
            self.captures[recipe] = capture_now(
                self.loaded,
                engine="transformers",
                target=self.folder,
                out=out,
                samples=self.samples,
                imitate=imitate,
                device="cpu",
                limits=self.limits,
            )
        return Requests(open_bundle(self.captures[recipe], limits=self.limits))

    def _states(self, sample: TrainingSample, recipe: Recipe, requests: Requests | None) -> list[Tensor] | None:
        if requests is not None:
            captured, _ = requests.take(sample.name, sample.input_ids_T)
            return None if captured is None else [captured.load(name) for name in captured.slots]
        stored = stored_states(sample, self.samples)
        return [sample.states_THk[stored[s]] for s in recipe] if all(s in stored for s in recipe) else None
