"""``contract verify``: static checks, golden rows, then sample by sample both paths; one pass, one sample in memory at a time.

Legend: T tokens, G target hidden size, DV draft vocabulary.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import torch

from contract.errors import UsageError, UserError
from contract.files.bundle import Bundle, open_bundle
from contract.files.checkpoint import Checkpoint
from contract.findings import Depth, Json
from contract.limits import DEFAULT_LIMITS, Limits
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check_loaded
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.wiring import Owner, Reading
from eagle3_contract.verify import rules
from eagle3_contract.verify.collect import Findings
from eagle3_contract.verify.frame import Frame, subject_of
from eagle3_contract.verify.golden import EmbeddingRows, read_golden
from eagle3_contract.verify.golden_compare import compare_golden, run_rows
from eagle3_contract.verify.sample_set import SampleSet, open_samples
from eagle3_contract.verify.target_rows import check_captured_target, check_embedding_rows
from eagle3_contract.verify.walk import TARGET_NEEDED, Walk

GOLDEN_STEPS: Final = 3
"""Steps that golden rows should hold (design of the contract file): feedback shows from step 1, a normed one from step 2."""


def verify(request: VerifyRequest, *, limits: Limits = DEFAULT_LIMITS) -> Report:
    """Run everything that the request gives material for. Never raises a ``UserError``: what was unusable is in the report (exit 2)."""
    subject = subject_of(request, ("spec", "samples", "capture", "engine", "target", "server"))
    frame = Frame(request=request, limits=limits, subject=subject, provenance={"torch": torch.__version__, "device": request.device})

    def run(loaded: LoadedContract) -> None:
        with ExitStack() as stack:
            _Verification(request, loaded, frame.found, frame.measurements, frame.provenance, stack, limits).run()

    return frame.report(run, dimension="files")


class _Verification:
    """One run over one contract."""

    def __init__(
        self,
        request: VerifyRequest,
        loaded: LoadedContract,
        found: Findings,
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
        static = check_loaded(
            self.loaded,
            target=self.request.target,
            integrity=Integrity[self.request.integrity.upper()],
            allow_pickle=self.request.allow_pickle,
            limits=self.limits,
        )
        for check in static:
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
        bundle = self._bundle(reading, samples)
        stated = self.contract.training.samples
        none_promised = self.request.samples is None and stated.path is None and not stated.manifest and not stated.count
        if samples is None and none_promised and (bundle is not None or self.contract.golden is not None):
            checks = [c for c in checks if c.rule != "samples.there"]
        self.found.add(*checks)
        self._pairing(samples, bundle, target)
        if samples is None and bundle is None:
            return
        Walk(
            loaded=self.loaded,
            request=self.request,
            found=self.found,
            measurements=self.measurements,
            provenance=self.provenance,
            reading=reading,
            source=source,
            target=target,
            samples=samples,
            bundle=bundle,
            device=self.device,
            limits=self.limits,
        ).run()

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

    def _pairing(self, samples: SampleSet | None, bundle: Bundle | None, target: WeightSource | None) -> None:
        """The target at hand against what the samples and the capture say of theirs."""
        if target is None or self.request.target is None:
            return
        if samples is not None:
            self.found.add(*check_embedding_rows(self.loaded, samples, target))
        if bundle is not None and self.request.capture is not None:
            self.found.add(*check_captured_target(bundle, self._checkpoint(Path(self.request.target))))

    def _golden(self, reading: Reading, source: WeightSource, target: WeightSource | None) -> None:
        golden = self.contract.golden
        if golden is None:
            return
        try:
            rows = read_golden(self.loaded.folder, golden.file)
        except UserError as error:
            self.found.error(error, "wiring")
            return
        head_is_targets = reading.wiring.lm_head in (Owner.TARGET, Owner.TIED_TO_TARGET)
        stored = rows.embedding is not None and not head_is_targets
        embedding = EmbeddingRows(rows, reading.wiring.target_vocab_size) if stored else target
        try:
            drafter = Drafter(reading.wiring, source, target_source=embedding, device=self.device)
            run = run_rows(
                drafter,
                rows.input_ids_T,
                rows.hidden_states_TC,
                position_ids_T=rows.position_ids_T,
                document_ids_T=rows.document_ids_T,
                steps=rows.steps,
                rollout=reading.rollout,
            )
        except UserError as error:
            message = f"the drafter does not run on its golden rows: {error.message}"
            if error.rule == TARGET_NEEDED:
                self.found.add(rules.GOLDEN_LOGITS.undecided(message, at=Depth.VERIFY, fix=error.fix))
            else:
                self.found.add(rules.RUNNABLE.failed(message, fix=error.fix))
            return
        self.found.add(*compare_golden(rows, run, tolerance=self.contract.tolerances.logits))
        few = rows.steps < GOLDEN_STEPS
        steps_text = f"the golden rows hold {rows.steps} steps"
        self.found.add(rules.GOLDEN_STEPS.failed(steps_text, expected=GOLDEN_STEPS) if few else rules.GOLDEN_STEPS.passed(steps_text))
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
            from eagle3_contract.engines.run import capture_now, file_prompts, options_for

            options = options_for(request.engine, request)
            if request.target is None:
                raise UsageError("an engine needs the target", rule="engine.target-needed", fix="Give the target's folder with --target.")
            prompts = None if request.prompts is None else file_prompts(request.prompts, self.limits)
            if samples is None and prompts is None:
                raise UsageError("nothing to run: there are no samples", rule="engine.samples-needed", fix="Give samples with --samples.")
            folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="contract-capture-"))
            out = capture_now(
                self.loaded,
                engine=request.engine,
                target=request.target,
                out=f"{folder}/capture",
                samples=samples if prompts is None else None,
                prompts=prompts,
                options=options,
                serve_args=request.serve_args,
                device=request.device,
                limits=self.limits,
            )
            return open_bundle(out, limits=self.limits)
        except UserError as error:
            self.found.error(error, "engine")
            return None
