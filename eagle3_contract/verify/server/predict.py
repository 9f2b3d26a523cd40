"""The training path's accepted length on the samples, and the server's against it. The only module here that runs the drafter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contract.errors import UserError
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, Json
from contract.limits import Limits
from contract.progress import progress
from contract.requests import VerifyRequest
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.verify.acceptance import Acceptance, pooled
from eagle3_contract.verify.bootstrap import CONFIDENCE
from eagle3_contract.verify.engine_runs.definitions import Counts
from eagle3_contract.verify.executors.measure import Measurer, open_head
from eagle3_contract.verify.executors.result import SampleProblem
from eagle3_contract.verify.figures import PathFigures, interval, paired_bootstrap
from eagle3_contract.verify.metrics import StepCounts
from eagle3_contract.verify.paths import Path as DraftPath
from eagle3_contract.verify.sample_set import SampleSet
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.steps import steps_and_drafts

FEWEST: Final = 3
"""Samples from which on an interval over samples says anything."""


@dataclass(slots=True)
class Prediction:
    """What the drafter accepts on the samples: figures as ``verify`` has them, or the checks that say why there are none."""

    figures: PathFigures | None = None
    checks: list[Check] = field(default_factory=list)


def predict(loaded: LoadedContract, request: VerifyRequest, samples: SampleSet, limits: Limits) -> Prediction:
    """Run the training path over the samples. Never raises a ``UserError``."""
    done = Prediction()
    try:
        reading = resolve(loaded.contract)
        source = CheckpointSource(_checkpoint(loaded.drafter_folder, request, limits))
        folder = request.target if request.target is not None and Path(request.target).is_dir() else None
        target = None if folder is None else CheckpointSource(_checkpoint(Path(folder), request, limits))
        path = DraftPath.build(reading, source, target, resolve_device(request.device))
    except UserError as error:
        done.checks.append(
            rules.PREDICTED.undecided(f"acceptance cannot be predicted: {error.message}", required=False, where=error.where, fix=error.fix)
        )
        return done
    figures = PathFigures(*steps_and_drafts(loaded.contract))
    head, no_head = open_head(target, folder)
    with progress(len(samples.files), "training path") as tick, Measurer(loaded, samples, path, head, no_head, limits) as measurer:
        for file in samples.files:
            outcome = measurer.file(file)
            tick()
            if isinstance(outcome, SampleProblem):
                done.checks.append(outcome.check)
                continue
            counts = None if outcome.right is None or outcome.rows is None else StepCounts(outcome.right, outcome.rows)
            figures.take(outcome.name, Acceptance(outcome.rounds, outcome.accepted), counts)
    done.figures = figures
    return done


def _checkpoint(folder: Path, request: VerifyRequest, limits: Limits) -> Checkpoint:
    checkpoint = Checkpoint.open(folder, limits=limits, allow_pickle=request.allow_pickle)
    checkpoint.raise_if_rejected()
    return checkpoint


def predicted_checks(figures: PathFigures, measured: Mapping[str | None, Counts], drafts: int | None) -> Iterator[Check]:
    """The server's length against the predicted one.

    Args:
        figures: the training path's.
        measured: the server's verify steps by sample (None: prompts that are no sample's, added up).
        drafts: how many drafts the server makes in a step.
    """
    if drafts is not None and drafts != figures.drafts:
        says = f"predicted is the acceptance of {figures.drafts} drafts, the server makes {drafts}"
        yield rules.PREDICTED.undecided(says, required=False)
        return
    theirs = {name: Acceptance(c.rounds, c.accepted) for name, c in measured.items() if c.rounds}
    ours = {name: a for name, a in figures.lengths.items() if a.rounds}
    pairs = [(ours[name], theirs[name]) for name in ours if name in theirs]
    if len(ours) < FEWEST or not theirs:
        says = f"{len(ours)} samples and {len(theirs)} answers are too few to compare acceptance by"
        yield rules.PREDICTED.undecided(says, required=False)
        return
    if len(pairs) >= FEWEST:
        before, after = pooled(a for a, _ in pairs).length, pooled(b for _, b in pairs).length
        low, high = paired_bootstrap(pairs)
        on = f"{len(pairs)} samples, each against the server's answer to its prompt"
    else:
        before, after = pooled(ours.values()).length, pooled(theirs.values()).length
        lowest, highest = interval(list(ours.values()))
        low, high = lowest - after, highest - after
        on = f"{len(ours)} samples, against the server's answers to other prompts"
    text = (
        f"accepted length {before:.3f} predicted by the training path, {after:.3f} at the server "
        f"(difference {before - after:+.3f}, {CONFIDENCE:.0%} interval {low:+.3f} to {high:+.3f}; {on})"
    )
    evidence: dict[str, Json] = {"predicted": before, "measured": after, "interval": [low, high], "pairs": len(pairs)}
    yield (rules.PREDICTED.failed if low > 0 else rules.PREDICTED.passed)(text, expected=before, actual=after, evidence=evidence)
