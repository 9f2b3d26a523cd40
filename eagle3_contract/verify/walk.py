"""The pass over samples and requests: each sample once through both paths, one in memory at a time.

Legend: T tokens, G target hidden size, DV draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.files.bundle import Bundle
from contract.findings import Depth, Json, Where
from contract.limits import Limits
from contract.requests import VerifyRequest
from contract.statement import fact
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.states import State
from eagle3_contract.model.wiring import Reading
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify import rules, state_rules
from eagle3_contract.verify.acceptance import Acceptance
from eagle3_contract.verify.best import Best
from eagle3_contract.verify.bounds import state_bounds
from eagle3_contract.verify.candidates import of_document, of_requests, of_samples
from eagle3_contract.verify.capture_self import greedy_check, point_said, recipe_said, self_checks
from eagle3_contract.verify.capture_set import Captured, Requests, belongs
from eagle3_contract.verify.collect import Findings
from eagle3_contract.verify.distances import Distances
from eagle3_contract.verify.divergence import EXACT, PathComparison, bound_for, compare_paths, first_parting, path_checks
from eagle3_contract.verify.engine_drafter.run import checks as drafter_checks
from eagle3_contract.verify.engine_runs.floors import logit_tolerance, under_noise
from eagle3_contract.verify.engine_runs.rows import Covered, first_rows, generated_mask
from eagle3_contract.verify.engine_runs.run import measure_noise, noise_checks, round_checks
from eagle3_contract.verify.executors.begin import measuring
from eagle3_contract.verify.executors.measure import Measurer, open_head
from eagle3_contract.verify.executors.result import SampleProblem
from eagle3_contract.verify.figures import (
    PathFigures,
    apart_check,
    claim_checks,
    coverage_check,
    definition_of,
    floor_check,
    measure,
    path_figures_checks,
)
from eagle3_contract.verify.inference import InferenceReading, inference_reading, recipe_fed
from eagle3_contract.verify.last_state import CapturedLast, last_state_checks
from eagle3_contract.verify.metrics import StepCounts, TargetTokens
from eagle3_contract.verify.paths import Path as DraftPath
from eagle3_contract.verify.paths import try_build
from eagle3_contract.verify.sample_set import OtherSamples, SampleSet, layout_problem, stored_states
from eagle3_contract.verify.slot_shapes import shape_checks
from eagle3_contract.verify.states import Named, SlotVerdict, judge_request, state_checks
from eagle3_contract.verify.steps import steps_and_drafts
from eagle3_contract.verify.strips import Strips
from eagle3_contract.verify.target_tokens import NO_TARGET, of_sample, recorded

REQUEST: Final = "capture"
"""The format of a sample that is a request's own tokens and boundaries."""
TARGET_NEEDED: Final = "drafter.target-needed"


@dataclass(kw_only=True, eq=False)
class Walk:
    """One pass. Everything but the inputs is filled by ``run``."""

    loaded: LoadedContract
    request: VerifyRequest
    found: Findings
    measurements: dict[str, Json]
    provenance: dict[str, Json]
    reading: Reading
    source: WeightSource
    target: WeightSource | None
    samples: SampleSet | None
    bundle: Bundle | None
    device: torch.device
    limits: Limits
    verdicts: list[SlotVerdict] = field(default_factory=list)
    comparisons: list[PathComparison] = field(default_factory=list)
    same_states: list[PathComparison] = field(default_factory=list)
    covered: int = 0
    counted: int = 0
    no_target: tuple[str, str] | None = None
    no_head: UserError | None = None
    engine: InferenceReading | None = None
    train_path: DraftPath | None = None
    infer_path: DraftPath | None = None

    def __post_init__(self) -> None:
        self.steps, drafts = steps_and_drafts(self.loaded.contract)
        self.training, self.paired, self.inference = (PathFigures(self.steps, drafts) for _ in range(3))
        self.definition = definition_of(self.loaded)
        self.distances = Distances(self.reading.recipe)
        self.strips = Strips()
        self.noise = measure_noise(self.bundle, self.reading)
        self.bounds = state_bounds(self.loaded.contract, self.bundle, self.noise)
        self.last = CapturedLast(self.loaded.contract.training.target_state, self.bounds)
        self.others = OtherSamples(self.samples, self.limits) if self.samples is not None else None
        self.head, self.no_head = open_head(self.target, self.request.target)

    def run(self) -> None:
        """Walk, and add every check."""
        if self.samples is not None and self.head is not None:
            self.found.add(*last_state_checks(self.samples, self.last.stated, self.head.norm_G, self.limits))
        self.train_path = self._path(self.reading, "under the contract")
        if self.train_path is not None:
            self.found.add(rules.RUNNABLE.passed("the drafter runs under the contract"))
        requests: Requests | None = None
        if self.bundle is not None:
            self.found.add(*belongs(self.bundle, self.loaded))
            requests = Requests(self.bundle)
            self._open_inference(self.bundle)
        if self.samples is not None and requests is None and self.train_path is not None:
            self._measure(self.samples, self.train_path)
        elif self.samples is not None:
            self._walk_samples(self.samples, requests)
        if requests is not None:
            self._walk_rest(requests)
            self.found.add(*requests.ledger.checks())
        self._engine_drafter()
        self._conclude()

    def _engine_drafter(self) -> None:
        """The engine's drafter, forward by forward, against ours on the same inputs."""
        if self.bundle is None:
            return
        found = drafter_checks(
            self.bundle,
            self.loaded,
            self.reading,
            self.source,
            self.target,
            self.measurements,
            target_folder=self.request.target,
            device=self.device,
        )
        self.found.add(*found)

    def _path(self, reading: Reading, how: str) -> DraftPath | None:
        path, error = try_build(reading, self.source, self.target, self.device)
        if error is not None:
            message = f"the drafter does not run {how}: {error.message}"
            needed = error.rule == TARGET_NEEDED
            check = (
                rules.RUNNABLE.undecided(message, at=Depth.VERIFY, fix=error.fix)
                if needed
                else rules.RUNNABLE.failed(message, fix=error.fix)
            )
            self.found.add(check)
        return path

    def _open_inference(self, bundle: Bundle) -> None:
        self.engine = inference_reading(bundle.manifest, self.loaded, self.reading, target=self.request.target)
        self.provenance["capture"] = dict(self.engine.provenance)
        reading = self.engine.reading
        if reading is None:
            self.found.add(rules.RUNNABLE.undecided(str(self.engine.problem), at=Depth.VERIFY))
        elif reading.wiring == self.reading.wiring and self.train_path is not None:
            self.infer_path = DraftPath(reading, self.train_path.drafter)
        elif reading.wiring.states == len(self.reading.recipe):
            self.infer_path = self._path(reading, f"as {reading.reader} reads it")

    def _measure(self, samples: SampleSet, path: DraftPath) -> None:
        """Without a capture nothing of a sample is kept but its counts, so that many can be measured by many."""
        measurer = Measurer(self.loaded, samples, path, self.head, self.no_head, self.limits)
        target = self.request.target if self.target is not None else None
        with measuring(self.request, self.loaded, samples, measurer, target, self.limits) as (outcomes, execution):
            self.provenance["execution"] = execution
            for outcome, resumed in outcomes:
                execution["resumed"] += resumed
                if isinstance(outcome, SampleProblem):
                    self.found.add(outcome.check)
                    continue
                counts = None if outcome.right is None or outcome.rows is None else StepCounts(outcome.right, outcome.rows)
                self.training.take(outcome.name, Acceptance(outcome.rounds, outcome.accepted), counts)
                self.covered, self.counted = self.covered + outcome.covered, self.counted + outcome.counted
                self.no_target = self.no_target or outcome.missing
        self._samples_were_read(samples, len(self.training.lengths))

    def _samples_were_read(self, samples: SampleSet, read: int) -> None:
        if read:
            self.found.add(
                rules.SAMPLES_THERE.passed(f"{read} samples were read", actual=read),
                rules.SAMPLES_LAYOUT.passed(f"{read} samples store {len(samples.stored)} states each, as the contract says"),
            )

    def _walk_samples(self, samples: SampleSet, requests: Requests | None) -> None:
        hidden = self.reading.wiring.target_hidden_size
        read = 0
        for sample in samples.read(limits=self.limits):
            if isinstance(sample, UserError):
                self.found.error(sample, "alignment")
                continue
            problem = layout_problem(sample, samples, hidden)
            if problem is not None:
                self.found.add(problem)
                continue
            read += 1
            captured: Captured | None = None
            if requests is not None:
                captured, checks = requests.take(sample.name, sample.input_ids_T)
                self.found.add(*checks)
            stored = {state: sample.states_THk[i] for state, i in stored_states(sample, samples).items()}
            others = partial(of_samples, self.others, samples, sample.name, self.reading.recipe)
            if captured is None or requests is None:
                self._one(sample, stored, None, others, (self.training,))
                continue
            whole = captured.first(captured.request.tokens)
            self.found.add(*self_checks(whole), *greedy_check(whole, self.head))
            part = first_rows(sample, captured.rows)
            if part is sample:
                self._one(sample, stored, captured, others, (self.training, self.paired))
            else:  # training's figures are the whole sample's; the comparison stands on the rows that both sides have
                self._one(sample, stored, None, others, (self.training,))
                self._one(part, {state: x[: captured.rows] for state, x in stored.items()}, captured, others, (self.paired,))
            own = self._generated(captured)
            requests.ledger.add(Covered(captured.request, sample.name, sample.tokens, captured.rows, own))
        if requests is not None:
            self.found.add(*requests.absences())
        self._samples_were_read(samples, read)

    def _generated(self, captured: Captured) -> int:
        """A sample's request once more, whole: what the engine wrote behind the rows in common is judged by the boundaries that it recorded
        itself. Returns how many rows that adds."""
        whole = captured.first(captured.request.tokens)
        if captured.rows == whole.rows or not any(s in whole.states for s in self.reading.recipe):
            return 0
        self._request(whole, (self.paired,), lambda: iter(()))
        return whole.rows - captured.rows

    def _walk_rest(self, requests: Requests) -> None:
        """Requests that repeat no sample: the boundaries that they record stand for the states of training."""
        rest = requests.rest()
        for captured in rest:
            name = captured.request.id
            if not captured.states:
                self.found.add(
                    state_rules.RECIPE.undecided(
                        f"request {name} repeats no sample and records no boundary: nothing to compare its slots with",
                        at=Depth.VERIFY,
                        where=Where(sample=name),
                    )
                )
                continue
            self.found.add(*self_checks(captured), *greedy_check(captured, self.head))
            self._request(captured, (self.training, self.paired), partial(of_requests, rest, captured, self.reading.recipe))
            requests.ledger.add(Covered(captured.request, None, 0, 0, captured.rows))

    def _request(self, captured: Captured, into: Sequence[PathFigures], others: Callable[[], Iterator[Named]]) -> None:
        """A request as a sample of its own."""
        stored = {state: captured.load(name) for state, name in captured.states.items() if state in self.reading.recipe}
        name = captured.request.id
        sample = TrainingSample(
            name=name, file=name, format=REQUEST, input_ids_T=captured.input_ids, loss_mask_T=generated_mask(captured.request),
            states_THk=tuple(stored[s] for s in self.reading.recipe if s in stored),
        )  # fmt: skip
        self._one(sample, stored, captured, others, into)

    def _one(
        self,
        sample: TrainingSample,
        stored: Mapping[State, Tensor],
        captured: Captured | None,
        others: Callable[[], Iterator[Named]],
        into: Sequence[PathFigures],
    ) -> None:
        """One sample on the training path; with a request also on the inference path, and the two compared.

        Args:
            sample: tokens, mask, last state; as many rows as the request is looked at.
            stored: the states of training by name, [T, G] each.
            captured: the request with the same tokens.
            others: gives states of other documents, for attribution.
            into: takes the figures of the training path.
        """
        target = self._target_tokens(sample, captured)
        ours = Recorder() if captured is not None else None
        logits = self._train(sample, stored, target, into, ours)
        if captured is None:
            return
        # Compared where the drafter runs. On a CPU nothing moves.
        slots = [captured.load(name).to(self.device) for name in captured.slots]
        stored = {state: x_TG.to(self.device) for state, x_TG in stored.items()}
        width, states = self.reading.wiring.target_hidden_size, len(self.reading.recipe)
        self.found.add(*shape_checks(sample.name, slots, sample.tokens, width, states))
        named = [candidate.on(self.device) for candidate in (*of_document(stored, captured), *others())]
        self.verdicts += judge_request(sample.name, slots, self.reading.recipe, named, self.bounds, norm_weights=self._norm_weights())
        self.distances.add(slots, stored, captured)
        self.last.add(sample, captured)
        every_step = sample.tokens >= self.steps + 2  # a row that is shared for each step, else there is nothing to compare
        if self.infer_path is not None and logits is not None and ours is not None and every_step:
            self._inference(sample, stored, slots, logits, ours, target)

    def _train(
        self,
        sample: TrainingSample,
        stored: Mapping[State, Tensor],
        target: TargetTokens | None,
        into: Sequence[PathFigures],
        taps: Recorder | None,
    ) -> list[Tensor] | None:
        """The training path's logits, counted; None where a state of the recipe is not at hand. ``taps``: of a sample with a request."""
        if self.train_path is None or sample.tokens < 2 or not all(s in stored for s in self.reading.recipe):
            return None
        states = [stored[s] for s in self.reading.recipe]
        logits = self.train_path.run(sample.input_ids_T, states, self.steps, document_ids_T=sample.document_ids_T, taps=taps)
        self._count(into, sample, logits, target)
        if self.paired in into:
            self.strips.add(sample.name, "training", logits[0], self.train_path.drafter.target_ids.cpu(), sample.input_ids_T)
        return logits

    def _inference(
        self,
        sample: TrainingSample,
        stored: Mapping[State, Tensor],
        slots: Sequence[Tensor],
        logits: Sequence[Tensor],
        ours: Recorder,
        target: TargetTokens | None,
    ) -> None:
        assert self.infer_path is not None
        theirs = Recorder()
        try:
            got = self.infer_path.run(sample.input_ids_T, slots, self.steps, document_ids_T=sample.document_ids_T, taps=theirs)
        except UserError as error:
            message = f"{sample.name}: the drafter does not run on the captured states: {error.message}"
            self.found.add(rules.RUNNABLE.failed(message, fix=error.fix))
            return
        self._count((self.inference,), sample, got, target)
        self.strips.add(sample.name, "inference", got[0], self.infer_path.drafter.target_ids.cpu(), sample.input_ids_T)
        apart = [self.distances.own(x, stored.get(state)) for x, state in zip(slots, self.reading.recipe, strict=False)]
        bound = bound_for([a.median for a in apart if a is not None], [a.worst for a in apart if a is not None])
        bound = logit_tolerance(bound, self.noise, self.loaded.contract)
        parting = first_parting(ours, theirs, bound)
        self.comparisons.append(compare_paths(sample.name, logits, got, bound, parting))
        if self.train_path is not None and self.infer_path.drafter is not self.train_path.drafter:
            self._same_states(sample, slots, got, theirs)

    def _same_states(self, sample: TrainingSample, slots: Sequence[Tensor], got: Sequence[Tensor], theirs: Recorder) -> None:
        """The contract's wiring on what the engine fed: with equal states in, a difference is the wiring's, however noisy the capture."""
        assert self.train_path is not None
        ours = Recorder()
        want = self.train_path.run(sample.input_ids_T, slots, self.steps, document_ids_T=sample.document_ids_T, taps=ours)
        parting = first_parting(ours, theirs, EXACT)
        self.same_states.append(compare_paths(sample.name, want, got, EXACT, parting))

    def _count(self, into: Sequence[PathFigures], sample: TrainingSample, logits: Sequence[Tensor], target: TargetTokens | None) -> None:
        assert self.train_path is not None
        targets_D = self.train_path.drafter.target_ids.cpu()
        # A request's mask says where its rounds begin; accuracy is claimed for samples.
        definition = None if sample.format == REQUEST else self.definition
        best = [Best.of(z) for z in logits]
        length, counts, missing = measure(
            best, into[0].drafts, targets_D, sample.input_ids_T, sample.loss_mask_T, target, definition, sample.document_ids_T
        )
        for figures in into:
            figures.take(sample.name, length, counts)
        self.no_target = self.no_target or missing
        if self.training in into and target is not None and sample.loss_mask_T is not None and sample.format != REQUEST:
            mask_T = sample.loss_mask_T.bool()
            self.covered += int(torch.isin(target.full[mask_T], targets_D).sum())
            self.counted += int(mask_T.sum())

    def _target_tokens(self, sample: TrainingSample, captured: Captured | None) -> TargetTokens | None:
        """As ``target_tokens.of_sample``, else as the capture recorded them."""
        found = None
        if self.train_path is not None:
            stated = self.loaded.contract.training.target_state
            found = of_sample(sample, self.head, stated, self.train_path.drafter.target_ids.cpu())
        if found is None and captured is not None:
            found = recorded(captured.greedy, sample.tokens)
        if found is None:
            self.no_target = (self.no_head.message, self.no_head.fix) if self.no_head is not None else NO_TARGET
        return found

    def _norm_weights(self) -> dict[str, Tensor]:
        return {} if self.head is None else {"the target's final norm": self.head.norm_G.float().to(self.device)}

    def _conclude(self) -> None:
        reason, fix = ("", None) if self.engine is None else (self.engine.reason, self.engine.fix)
        self.found.add(*noise_checks(self.noise, self.loaded, self.head, self.measurements))
        drafter = None if self.train_path is None else self.train_path.drafter
        self.found.add(*round_checks(self.bundle, self.reading, drafter, self.measurements))
        if self.verdicts:
            self.measurements["distances"] = self.distances.as_measurement()
        if tokens := self.strips.as_measurement():
            self.measurements["tokens"] = tokens
        for name, figures in (("training_path", self.training), ("inference_path", self.inference)):
            if figures.lengths:
                self.measurements[name] = figures.as_measurement()
        claimed = fact(self.loaded.contract.training.metrics.accuracy)
        if claimed.known:
            self.measurements["claimed"] = {"accuracy": list(claimed.value)}
        self.found.add(*self.last.checks())
        if self.bundle is not None:
            said = recipe_said(recipe_fed(self.bundle.manifest), self.verdicts)
            self.found.add(*said, *point_said(self.loaded.contract, self.verdicts))
        states = state_checks(self.verdicts, self.reading.recipe, reason=reason, fix=fix)
        self.found.add(*under_noise(states, self.noise, self.loaded.contract))
        if self.comparisons and self.engine is not None and self.engine.reading is not None:
            self.found.add(*path_checks(self.comparisons, reader=self.engine.reading.reader))
            self.found.add(*path_checks(self.same_states, reader=self.engine.reading.reader, rule=rules.PATH_WIRING))
        if self.samples is not None and self.train_path is not None:
            claimed_checks = claim_checks(self.loaded, self.training, self.no_target)
            self.found.add(*claimed_checks, *coverage_check(self.loaded, self.covered, self.counted), *apart_check(self.training))
        self.found.add(*path_figures_checks(self.paired, self.inference))
        last, path = (self.inference, "inference") if self.inference.lengths else (self.training, "training")
        self.found.add(*floor_check(self.loaded, last, path))
