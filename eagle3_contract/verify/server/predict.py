"""What the drafter accepts with the states of training, and the server's acceptance against it. The only module here that runs the drafter.

Where the target's weights are at hand, it is run over the prompts and the server's own answers to them, so that both figures are about the
same text; with training samples the figure is that of their texts.

Legend: T tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from contract.errors import UserError
from contract.files.bundle import open_bundle
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, Json
from contract.limits import Limits
from contract.progress import progress
from contract.requests import VerifyRequest
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.verify.acceptance import NO_DRAFT, Acceptance, pooled
from eagle3_contract.verify.bootstrap import CONFIDENCE
from eagle3_contract.verify.capture_set import Requests
from eagle3_contract.verify.engine_runs.definitions import Counts
from eagle3_contract.verify.executors.measure import Measurer, open_head
from eagle3_contract.verify.executors.result import SampleProblem
from eagle3_contract.verify.figures import PathFigures, interval, paired_bootstrap
from eagle3_contract.verify.metrics import StepCounts
from eagle3_contract.verify.paths import Path as DraftPath
from eagle3_contract.verify.sample_set import SampleSet
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.facts import ServerFacts, Told, Window
from eagle3_contract.verify.steps import steps_and_drafts

FEWEST: Final = 3
"""Texts from which on an interval over texts says anything."""
MATERIAL: Final = 0.02
"""Share of the accepted drafts below which a difference is left alone: argmaxes that are nearly tied fall differently under other kernels.
A recipe that is off by one layer costs twice as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Figures of the training path, by sample or by prompt id. ``same_text``: over the server's own answers."""

    figures: PathFigures
    same_text: bool
    checks: Sequence[Check] = ()


def on_samples(loaded: LoadedContract, request: VerifyRequest, samples: SampleSet, limits: Limits) -> Prediction:
    """Run the training path over the samples. Raises UserError: the drafter cannot be run."""
    path, target = _path(loaded, request, limits)
    figures, checks = PathFigures(*steps_and_drafts(loaded.contract)), list[Check]()
    head, no_head = open_head(target, None if target is None else request.target)
    with progress(len(samples.files), "training path") as tick, Measurer(loaded, samples, path, head, no_head, limits) as measurer:
        for file in samples.files:
            outcome = measurer.file(file)
            tick()
            if isinstance(outcome, SampleProblem):
                checks.append(outcome.check)
                continue
            counts = None if outcome.right is None or outcome.rows is None else StepCounts(outcome.right, outcome.rows)
            figures.take(outcome.name, Acceptance(outcome.rounds, outcome.accepted), counts)
    return Prediction(figures=figures, same_text=False, checks=checks)


def on_answers(loaded: LoadedContract, request: VerifyRequest, told: Sequence[Told], limits: Limits) -> Prediction:
    """Run the target over prompts and answers, and the training path over its states.

    Raises:
        UserError: the target or the drafter cannot be run; ``server.answer`` if the server does not show its tokens.
    """
    from eagle3_contract.engines.run import capture_now  # transformers is needed only here
    from eagle3_contract.engines.transformers import Prompt

    shown = [t for t in told if t.window is Window.OWN and t.counts is not None and len(t.output_ids) == t.tokens]
    if not shown:
        raise rules.rejected("server.answer", "the server does not show the tokens of its answers")
    path, _ = _path(loaded, request, limits)
    steps, drafts = steps_and_drafts(loaded.contract)
    figures = PathFigures(steps, drafts)
    prompts = [Prompt(id=t.prompt.id, input_ids=[*t.prompt.input_ids, *t.output_ids]) for t in shown]
    starts = {t.prompt.id: len(t.prompt.input_ids) for t in shown}
    targets_D = path.drafter.target_ids.cpu()
    with tempfile.TemporaryDirectory(prefix="contract-server-") as folder:
        out = capture_now(
            loaded,
            engine="transformers",
            target=str(request.target),
            out=f"{folder}/capture",
            prompts=prompts,
            device=request.device,
            limits=limits,
        )
        for captured in Requests(open_bundle(out, limits=limits)).rest():
            logits = path.run(captured.input_ids, [captured.load(name) for name in captured.slots], drafts)
            chosen = [torch.where(z.isnan().any(-1), NO_DRAFT, targets_D[z.argmax(-1)]).tolist() for z in logits]
            start = starts[captured.request.id] - 1
            figures.take(captured.request.id, answered(captured.input_ids.tolist(), chosen, start), None)
    return Prediction(figures=figures, same_text=True)


def answered(tokens_T: Sequence[int], drafts_ST: Sequence[Sequence[int]], start: int) -> Acceptance:
    """Rounds of one answer as an engine makes them, the last one among them, which the end of the answer cuts.

    Engines count that round too, with all that it accepted (vLLM v1/core/sched/scheduler.py:2112 before :2167). What lies behind the end
    is not known here, so that the last round counts for what it accepted at least: the figure is never too high.

    Args:
        tokens_T: prompt and answer.
        drafts_ST: for each step s, row t: the target id of the draft for x[t+2+s], as for ``acceptance.chain``.
        start: row of the first round: it pairs the state of the prompt's last token with the answer's first.
    """
    rounds = accepted = 0
    row, tokens = start, len(tokens_T)
    while row + 2 < tokens:
        lead = 0
        while lead < len(drafts_ST) and row + 2 + lead < tokens and drafts_ST[lead][row] == tokens_T[row + 2 + lead]:
            lead += 1
        rounds, accepted, row = rounds + 1, accepted + lead, row + lead + 1
    return Acceptance(rounds, accepted)


def _path(loaded: LoadedContract, request: VerifyRequest, limits: Limits) -> tuple[DraftPath, CheckpointSource | None]:
    folder = request.target if request.target is not None and Path(request.target).is_dir() else None
    target = None if folder is None else _source(Path(folder), request, limits)
    source = _source(loaded.drafter_folder, request, limits)
    return DraftPath.build(resolve(loaded.contract), source, target, resolve_device(request.device)), target


def _source(folder: Path, request: VerifyRequest, limits: Limits) -> CheckpointSource:
    checkpoint = Checkpoint.open(folder, limits=limits, allow_pickle=request.allow_pickle)
    checkpoint.raise_if_rejected()
    return CheckpointSource(checkpoint)


def not_predicted(error: UserError) -> Check:
    """What is said where there is no prediction."""
    return rules.PREDICTED.undecided(f"acceptance cannot be predicted: {error.message}", required=False, where=error.where, fix=error.fix)


def predicted_checks(prediction: Prediction, measured: Mapping[str, Counts], facts: ServerFacts) -> Iterator[Check]:
    """The server's length against the predicted one.

    Args:
        prediction: the training path's figures.
        measured: the server's verify steps, by the name under which the prediction has the same text or its prompt; any other is one of
            another text.
        facts: how many drafts the server makes in a step, and whether in one chain.
    """
    figures = prediction.figures
    if (facts.steps is not None and facts.steps != figures.drafts) or (facts.topk or 1) > 1:
        shape = f"a tree of topk {facts.topk}" if (facts.topk or 1) > 1 else "a chain"
        says = f"predicted is what a chain of {figures.drafts} drafts accepts, the server drafts {shape} of {facts.steps} steps"
        yield rules.PREDICTED.undecided(says, required=False)
        return
    theirs = {name: Acceptance(c.rounds, c.accepted) for name, c in measured.items() if c.rounds}
    ours = {name: a for name, a in figures.lengths.items() if a.rounds}
    pairs = [(ours[name], theirs[name]) for name in ours if name in theirs]
    if len(ours) < FEWEST or not theirs:
        says = f"{len(ours)} predictions and {len(theirs)} answers are too few to compare acceptance by"
        yield rules.PREDICTED.undecided(says, required=False)
        return
    if len(pairs) >= FEWEST:
        before, after = pooled(a for a, _ in pairs).length, pooled(b for _, b in pairs).length
        low, high = paired_bootstrap(pairs)
        texts = "of the server's own answers" if prediction.same_text else "samples, each against the server's answer to its prompt"
        on = f"{len(pairs)} {texts}"
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
    evidence["same_text"] = prediction.same_text
    worse = low > 0 and before - after > MATERIAL * (before - 1)
    yield (rules.PREDICTED.failed if worse else rules.PREDICTED.passed)(text, expected=before, actual=after, evidence=evidence)
