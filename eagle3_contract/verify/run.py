"""``contract verify``: static checks, golden rows, then sample by sample both paths; one pass, one sample in memory at a time.

Legend: T tokens, G target hidden size, DV draft vocabulary.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from contract.errors import UsageError, UserError
from contract.files.bundle import Bundle, open_bundle
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, Depth, Json, Status, Where, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from contract.numerics.tolerance import Tolerance
from contract.reporting import Report
from contract.requests import VerifyRequest
from contract.statement import fact
from contract.structs import SpecInvalid
from eagle3_contract.check.run import check_loaded
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract, load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.states import State
from eagle3_contract.model.wiring import Reading
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify import rules, state_rules
from eagle3_contract.verify.bounds import state_bounds
from eagle3_contract.verify.capture_set import Captured, Requests, belongs
from eagle3_contract.verify.distances import Distances
from eagle3_contract.verify.divergence import PathComparison, bound_for, compare_paths, first_parting, path_checks
from eagle3_contract.verify.figures import (
    PathFigures,
    claim_checks,
    coverage_check,
    definition_of,
    floor_check,
    path_figures_checks,
)
from eagle3_contract.verify.golden import EmbeddingRows, compare_golden, read_golden
from eagle3_contract.verify.inference import InferenceReading, inference_reading
from eagle3_contract.verify.metrics import TargetTokens
from eagle3_contract.verify.paths import Path as DraftPath
from eagle3_contract.verify.paths import try_build
from eagle3_contract.verify.sample_set import SampleSet, layout_problem, open_samples, stored_states
from eagle3_contract.verify.states import Named, SlotVerdict, judge_request, state_checks
from eagle3_contract.verify.target_tokens import ARGMAX_EXTRA, TargetHead, recorded

FOREIGN: Final = 8
"""Other samples that a slot may be taken for."""
DEFAULT_STEPS: Final = 3
MAX_STEPS: Final = 16


class _Stop(Exception):
    """The first failure under ``--fail-fast``."""


@dataclass(slots=True)
class _Findings:
    """Collects checks; under ``--fail-fast`` the first failure stops the run."""

    fail_fast: bool
    checks: list[Check] = field(default_factory=list)

    def add(self, *checks: Check) -> None:
        for check in checks:
            self.checks.append(check)
            if self.fail_fast and check.status is Status.FAILED:
                raise _Stop

    def error(self, error: UserError, dimension: str = "files") -> None:
        self.add(check_from_error(error, dimension=dimension))


def verify(request: VerifyRequest, *, limits: Limits = DEFAULT_LIMITS) -> Report:
    """Run everything that the request gives material for. Never raises a ``UserError``: what was unusable is in the report (exit 2)."""
    subject: dict[str, Json] = {
        k: v for k in ("spec", "samples", "capture", "engine", "target", "server") if (v := getattr(request, k)) is not None
    }
    found = _Findings(request.fail_fast)
    measurements: dict[str, Json] = {}
    provenance: dict[str, Json] = {"torch": torch.__version__, "device": request.device}
    complete = True
    try:
        loaded = load_contract(request.spec, limits=limits)
        with ExitStack() as stack:
            _Verification(request, loaded, found, measurements, provenance, stack, limits).run()
    except _Stop:
        provenance["stopped"] = "at the first failure (--fail-fast)"
    except KeyboardInterrupt:
        complete = False
    except SpecInvalid as error:
        found.checks.extend(error.problems)
    except UserError as error:
        found.checks.append(check_from_error(error, dimension="contract" if error.rule.startswith("contract.") else "files"))
    return Report(
        command="verify", subject=subject, checks=found.checks, measurements=measurements, provenance=provenance, complete=complete
    )


class _Verification:
    """One run over one contract."""

    def __init__(
        self,
        request: VerifyRequest,
        loaded: LoadedContract,
        found: _Findings,
        measurements: dict[str, Json],
        provenance: dict[str, Json],
        stack: ExitStack,
        limits: Limits,
    ) -> None:
        self.request, self.loaded, self.found, self.limits, self.stack = request, loaded, found, limits, stack
        self.measurements, self.provenance = measurements, provenance
        self.contract = loaded.contract
        self.device = resolve_device(request.device)

    def run(self) -> None:
        for check in check_loaded(self.loaded, target=self.request.target, allow_pickle=self.request.allow_pickle, limits=self.limits):
            self.found.add(check)
        try:
            reading = resolve(self.contract)
        except UserError as error:
            self.found.add(rules.STATEMENTS.undecided(error.message, at=Depth.VERIFY, fix=error.fix))
            return
        self.found.add(rules.STATEMENTS.passed("every statement that decides the arithmetic is known"))
        try:
            source: WeightSource = CheckpointSource(self._checkpoint(self.loaded.drafter_folder))
        except UserError as error:
            self.found.error(error)
            return
        target = self._target_source()
        self._golden(reading, source, target)
        samples, checks = open_samples(
            self.loaded, self.request.samples, reading.recipe, allow_pickle=self.request.allow_pickle, limits=self.limits
        )
        if samples is None and self.contract.golden is not None and all(c.status is Status.UNKNOWN and not c.rejected for c in checks):
            checks = [c for c in checks if c.rule != "samples.there" or self.request.samples is not None]
        bundle = self._bundle(reading, samples)
        if samples is None and bundle is not None and self.request.samples is None:
            checks = [c for c in checks if c.rule != "samples.there"]
        self.found.add(*checks)
        if samples is None and bundle is None:
            return
        _Walk(self, reading, source, target, samples, bundle).run()

    def _checkpoint(self, folder: Path) -> Checkpoint:
        checkpoint = Checkpoint.open(folder, limits=self.limits, allow_pickle=self.request.allow_pickle)
        checkpoint.raise_if_rejected()
        return checkpoint

    def _target_source(self) -> WeightSource | None:
        if self.request.target is None or not Path(self.request.target).is_dir():
            return None
        try:
            return CheckpointSource(self._checkpoint(Path(self.request.target)))
        except UserError as error:
            self.found.error(error, "pairing")
            return None

    def _golden(self, reading: Reading, source: WeightSource, target: WeightSource | None) -> None:
        golden = self.contract.golden
        if golden is None:
            return
        try:
            rows = read_golden(self.loaded.folder, golden.file)
        except UserError as error:
            self.found.error(error, "wiring")
            return
        embedding = EmbeddingRows(rows, reading.wiring.target_vocab_size) if rows.embedding is not None else target
        try:
            drafter = Drafter(reading.wiring, source, target_source=embedding, device=self.device)
            output = teacher_forced(
                drafter,
                rows.input_ids_T,
                rows.hidden_states_TC,
                position_ids_T=rows.position_ids_T,
                document_ids_T=rows.document_ids_T,
                steps=rows.steps,
                rollout=reading.rollout,
            )
        except UserError as error:
            self.found.add(rules.RUNNABLE.failed(f"the drafter does not run on its golden rows: {error.message}", fix=error.fix))
            return
        tolerance = self.contract.tolerances.logits
        self.found.add(*compare_golden(rows, [z.cpu() for z in output.logits_steps], tolerance=tolerance))
        where = self.loaded.document.where("golden.produced_by")
        by_trainer = golden.produced_by == "trainer"
        text = f"the golden rows were made by the {golden.produced_by}"
        self.found.add(
            rules.GOLDEN_PROOF.passed(text, where=where)
            if by_trainer
            else rules.GOLDEN_PROOF.undecided(text, where=where, fix=rules.GOLDEN_PROOF.remedy)
        )

    def _bundle(self, reading: Reading, samples: SampleSet | None) -> Bundle | None:
        request = self.request
        try:
            if request.capture is not None:
                return open_bundle(request.capture, limits=self.limits)
            if request.engine is None:
                return None
            from eagle3_contract.engines.run import capture_now

            if request.target is None:
                raise UsageError("an engine needs the target", rule="cli.target-needed", fix="Give the target's folder with --target.")
            if samples is None:
                raise UsageError("nothing to run: there are no samples", rule="cli.samples-needed", fix="Give samples with --samples.")
            folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="contract-capture-"))
            out = capture_now(
                self.loaded,
                engine=request.engine,
                target=request.target,
                out=f"{folder}/capture",
                samples=samples,
                device=request.device,
                limits=self.limits,
            )
            return open_bundle(out, limits=self.limits)
        except UserError as error:
            self.found.error(error, "engine")
            return None


class _Walk:
    """The pass over samples and requests."""

    def __init__(
        self,
        of: _Verification,
        reading: Reading,
        source: WeightSource,
        target: WeightSource | None,
        samples: SampleSet | None,
        bundle: Bundle | None,
    ) -> None:
        self.of, self.reading, self.samples, self.bundle, self.found = of, reading, samples, bundle, of.found
        self.source, self.target = source, target
        self.contract = of.contract
        self.definition = definition_of(of.loaded)
        self.steps, drafts = _steps(of.contract)
        self.training, self.inference = PathFigures(self.steps, drafts), PathFigures(self.steps, drafts)
        self.verdicts: list[SlotVerdict] = []
        self.comparisons: list[PathComparison] = []
        self.distances = Distances(reading.recipe)
        self.covered = self.counted = 0
        self.no_target: UserError | str | None = None
        self.head = self._head()
        self.bounds = state_bounds(of.contract, bundle)
        self.engine: InferenceReading | None = None
        self.train_path: DraftPath | None = None
        self.infer_path: DraftPath | None = None
        self.foreign: list[tuple[str, TrainingSample]] = []

    def run(self) -> None:
        found = self.found
        self.train_path, error = try_build(self.reading, self.source, self._embedding_source(), self.of.device)
        if error is not None:
            rejected = error.rule in ("drafter.target-needed",)
            message = f"the drafter does not run under the contract: {error.message}"
            found.add(
                rules.RUNNABLE.undecided(message, at=Depth.VERIFY, fix=error.fix)
                if rejected
                else rules.RUNNABLE.failed(message, fix=error.fix)
            )
        else:
            found.add(rules.RUNNABLE.passed("the drafter runs under the contract"))
        requests = None
        if self.bundle is not None:
            found.add(*belongs(self.bundle, self.of.loaded))
            requests = Requests(self.bundle)
            self._inference()
        if self.samples is not None:
            self._samples(requests)
        if requests is not None:
            self._rest(requests)
        self._conclude()

    def _embedding_source(self) -> WeightSource | None:
        return self.target

    def _inference(self) -> None:
        assert self.bundle is not None
        self.engine = inference_reading(self.bundle.manifest, self.of.loaded, self.reading, target=self.of.request.target)
        self.of.provenance["capture"] = self.engine.provenance
        if self.engine.reading is None:
            if self.engine.problem is not None:
                self.found.add(rules.RUNNABLE.undecided(self.engine.problem, at=Depth.VERIFY))
            return
        if self.engine.reading.wiring == self.reading.wiring and self.train_path is not None:
            self.infer_path = DraftPath(self.engine.reading, self.train_path.drafter)
            return
        self.infer_path, error = try_build(self.engine.reading, self.source, self._embedding_source(), self.of.device)
        if error is not None:
            needed = error.rule == "drafter.target-needed"
            message = f"the drafter does not run as {self.engine.reading.reader} reads it: {error.message}"
            self.found.add(
                rules.RUNNABLE.undecided(message, at=Depth.VERIFY, fix=error.fix)
                if needed
                else rules.RUNNABLE.failed(message, fix=error.fix)
            )

    def _head(self) -> TargetHead | None:
        if self.target is None or self.of.request.target is None:
            return None
        from contract.jsonio import load_json_file

        try:
            config = load_json_file(Path(self.of.request.target) / "config.json")
            return TargetHead.load(self.target, config)
        except UserError as error:
            self.no_target = error
            return None

    def _samples(self, requests: Requests | None) -> None:
        assert self.samples is not None
        hidden = self.reading.wiring.target_hidden_size
        read = 0
        for sample in self.samples.read(limits=self.of.limits):
            if isinstance(sample, UserError):
                self.found.error(sample, "alignment")
                continue
            problem = layout_problem(sample, self.samples, hidden)
            if problem is not None:
                self.found.add(problem)
                continue
            read += 1
            self._sample(sample, requests)
            if len(self.foreign) < FOREIGN + 1:
                self.foreign.append((sample.name, sample))
        if read:
            self.found.add(
                rules.SAMPLES_THERE.passed(f"{read} samples were read", actual=read),
                rules.SAMPLES_LAYOUT.passed(f"{read} samples store {len(self.samples.stored)} states each, as the contract says"),
            )

    def _sample(self, sample: TrainingSample, requests: Requests | None) -> None:
        assert self.samples is not None
        states = [sample.states_THk[i] for i in self.samples.picked]
        captured: Captured | None = None
        if requests is not None:
            captured, checks = requests.take(sample.name, sample.input_ids_T)
            self.found.add(*checks)
        ours = Recorder() if captured is not None else None
        logits = None
        if self.train_path is not None:
            logits = self.train_path.run(sample.input_ids_T, states, self.steps, document_ids_T=sample.document_ids_T, taps=ours)
        target = self._target_tokens(sample, captured)
        self._count(self.training, sample, logits, target)
        if captured is None:
            return
        stored = {state: sample.states_THk[i] for state, i in stored_states(sample, self.samples).items()}
        self._compare(sample, captured, stored, logits, ours, target)

    def _count(self, figures: PathFigures, sample: TrainingSample, logits: list[Tensor] | None, target: TargetTokens | None) -> None:
        if logits is None or self.train_path is None:
            return
        targets_D = self.train_path.drafter.target_ids.cpu()
        figures.add(sample.name, logits, targets_D, sample.input_ids_T, sample.loss_mask_T, target, self.definition)
        if figures is self.training and target is not None and sample.loss_mask_T is not None:
            mask_T = sample.loss_mask_T.bool()
            self.covered += int(torch.isin(target.full[mask_T], targets_D).sum())
            self.counted += int(mask_T.sum())

    def _target_tokens(self, sample: TrainingSample, captured: Captured | None) -> TargetTokens | None:
        """The target's tokens in the trainer's own way: from the last state through the head, else as recorded."""
        stated = self.contract.training.target_state
        normed, by_trainer = fact(stated.normed), fact(stated.norm_applied_by_trainer)
        if self.head is not None and sample.last_TG is not None and normed.known and by_trainer.known and self.train_path is not None:
            norm = not normed.value and bool(by_trainer.value)
            return self.head.tokens(sample.last_TG, self.train_path.drafter.target_ids.cpu(), norm=norm)
        found = recorded(sample.extras.get(ARGMAX_EXTRA), sample.tokens)
        if found is None and captured is not None:
            found = recorded(captured.greedy, sample.tokens)
        if found is None and self.no_target is None:
            self.no_target = "neither the target's head nor its recorded argmax is at hand"
        return found

    def _compare(
        self,
        sample: TrainingSample,
        captured: Captured,
        stored: dict[State, Tensor],
        logits: list[Tensor] | None,
        ours: Recorder | None,
        target: TargetTokens | None,
    ) -> None:
        slots = [captured.load(name) for name in captured.slots]
        self._slot_shapes(sample.name, slots, sample.tokens)
        named = [Named(state, lambda x=x: x) for state, x in stored.items()]  # type: ignore[misc]
        named += [Named(state, lambda n=name: captured.load(n)) for state, name in captured.states.items() if state not in stored]  # type: ignore[misc]
        named += self._others(sample.name)
        verdicts = judge_request(sample.name, slots, self.reading.recipe, named, self.bounds, norm_weights=self._norm_weights())
        self.verdicts += verdicts
        self.distances.add(slots, stored, captured)
        if self.infer_path is None or logits is None or ours is None:
            return
        theirs = Recorder()
        try:
            got = self.infer_path.run(sample.input_ids_T, slots, self.steps, document_ids_T=sample.document_ids_T, taps=theirs)
        except UserError as error:
            self.found.add(
                rules.RUNNABLE.failed(f"{sample.name}: the drafter does not run on the captured states: {error.message}", fix=error.fix)
            )
            return
        self._count(self.inference, sample, got, target)
        apart = [
            self.distances.own(slot, x, stored.get(state)) for slot, (x, state) in enumerate(zip(slots, self.reading.recipe, strict=False))
        ]
        bound = bound_for([a.median for a in apart if a is not None], [a.worst for a in apart if a is not None])
        if self.contract.tolerances.logits is not None:
            bound = Tolerance(min(bound.median, self.contract.tolerances.logits), bound.worst, "contract")
        parting = first_parting(ours, theirs, bound)
        self.comparisons.append(compare_paths(sample.name, logits, got, bound, parting))

    def _slot_shapes(self, request: str, slots: list[Tensor], tokens: int) -> None:
        for i, slot in enumerate(slots):
            if slot.ndim != 2 or slot.shape[0] != tokens or slot.shape[1] != self.reading.wiring.target_hidden_size:
                self.found.add(
                    state_rules.SHAPE.failed(
                        f"{request}: slot {i} has shape {list(slot.shape)}, the sample's states have [{tokens}, "
                        f"{self.reading.wiring.target_hidden_size}]",
                        expected=[tokens, self.reading.wiring.target_hidden_size],
                        actual=list(slot.shape),
                        where=Where(slot=i, sample=request),
                    )
                )
        if len(slots) != len(self.reading.recipe):
            self.found.add(
                state_rules.SLOT_COUNT.failed(
                    f"{request}: {len(slots)} slots are fed, the contract has {len(self.reading.recipe)} states",
                    expected=len(self.reading.recipe),
                    actual=len(slots),
                    where=Where(sample=request),
                )
            )

    def _others(self, sample: str) -> Iterator[Named]:
        assert self.samples is not None
        for name, other in self.foreign[-FOREIGN:]:
            if name == sample:
                continue
            for state, index in stored_states(other, self.samples).items():
                yield Named(state, lambda o=other, i=index: o.states_THk[i], sample=name)  # type: ignore[misc]

    def _norm_weights(self) -> dict[str, Tensor]:
        return {} if self.head is None else {"the target's final norm": self.head.norm_G.float()}

    def _rest(self, requests: Requests) -> None:
        """Requests that repeat no sample: their own sweep gives the states of training."""
        for captured in requests.rest():
            if not captured.states:
                self.found.add(
                    state_rules.RECIPE.undecided(
                        f"request {captured.request.id} repeats no sample and records no boundary: nothing to compare its slots with",
                        at=Depth.VERIFY,
                        where=Where(sample=captured.request.id),
                    )
                )
                continue
            slots = [captured.load(name) for name in captured.slots]
            self._slot_shapes(captured.request.id, slots, captured.request.tokens)
            named = [Named(state, lambda c=captured, n=name: c.load(n)) for state, name in captured.states.items()]  # type: ignore[misc]
            self.verdicts += judge_request(
                captured.request.id, slots, self.reading.recipe, named, self.bounds, norm_weights=self._norm_weights()
            )
            self.distances.add(slots, {}, captured)
            if all(state in captured.states for state in self.reading.recipe) and self.train_path is not None:
                self._rest_paths(captured, slots)

    def _rest_paths(self, captured: Captured, slots: list[Tensor]) -> None:
        stored = {state: captured.load(captured.states[state]) for state in self.reading.recipe}
        sample = TrainingSample(
            name=captured.request.id,
            file=captured.request.id,
            format="capture",
            input_ids_T=captured.input_ids,
            loss_mask_T=None,
            states_THk=tuple(stored[s] for s in self.reading.recipe),
        )
        assert self.train_path is not None
        ours = Recorder()
        logits = self.train_path.run(sample.input_ids_T, list(sample.states_THk), self.steps, taps=ours)
        self._count(self.training, sample, logits, None)
        if self.infer_path is None:
            return
        theirs = Recorder()
        try:
            got = self.infer_path.run(sample.input_ids_T, slots, self.steps, taps=theirs)
        except UserError as error:
            self.found.add(
                rules.RUNNABLE.failed(f"{sample.name}: the drafter does not run on the captured states: {error.message}", fix=error.fix)
            )
            return
        self._count(self.inference, sample, got, None)
        apart = [self.distances.own(i, x, stored.get(s)) for i, (x, s) in enumerate(zip(slots, self.reading.recipe, strict=False))]
        bound = bound_for([a.median for a in apart if a is not None], [a.worst for a in apart if a is not None])
        self.comparisons.append(compare_paths(sample.name, logits, got, bound, first_parting(ours, theirs, bound)))

    def _conclude(self) -> None:
        found, loaded = self.found, self.of.loaded
        reason, fix = ("", None) if self.engine is None else (self.engine.reason, self.engine.fix)
        measured = self.of.measurements
        if self.verdicts:
            measured["distances"] = self.distances.as_measurement()
        if self.training.lengths:
            measured["training_path"] = self.training.as_measurement()
        if self.inference.lengths:
            measured["inference_path"] = self.inference.as_measurement()
        found.add(*state_checks(self.verdicts, self.reading.recipe, reason=reason, fix=fix))
        if self.comparisons:
            reader = "the inference path" if self.engine is None or self.engine.reading is None else self.engine.reading.reader
            found.add(*path_checks(self.comparisons, reader=reader))
        if self.samples is not None and self.train_path is not None:
            found.add(*claim_checks(loaded, self.training, self.no_target), *coverage_check(loaded, self.covered, self.counted))
        found.add(*path_figures_checks(self.training, self.inference))
        last, path = (self.inference, "inference") if self.inference.lengths else (self.training, "training")
        found.add(*floor_check(loaded, last, path))


def _steps(contract: object) -> tuple[int, int]:
    """Steps to run, and drafts per round of the chain: as many as the contract claims, accepts and serves."""
    from eagle3_contract.model.spec import Contract

    assert isinstance(contract, Contract)
    claimed, k, served = fact(contract.training.metrics.accuracy), fact(contract.acceptance.k), fact(contract.serving.steps)
    drafts = k.value if k.known else served.value if served.known else DEFAULT_STEPS
    drafts = max(1, min(int(drafts), MAX_STEPS))
    return max(drafts, min(len(claimed.value), MAX_STEPS) if claimed.known else 0), drafts
