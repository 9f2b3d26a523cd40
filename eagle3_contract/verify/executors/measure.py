"""One sample through the drafter on the training path, down to its counts.

Legend: T tokens, G target hidden size, D draft vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import torch
from torch import Tensor

from contract.errors import InputRejected, UserError
from contract.files.checkpoint import Checkpoint
from contract.files.paths import open_path
from contract.findings import check_from_error
from contract.jsonio import load_json_file
from contract.limits import Limits
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract, load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.states import Recipe
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.trainers.samples import SampleReader
from eagle3_contract.verify.executors.memory import keep_freed_memory
from eagle3_contract.verify.executors.result import Outcome, SampleProblem, SampleResult
from eagle3_contract.verify.figures import definition_of, measure
from eagle3_contract.verify.metrics import WITHIN_DRAFT_VOCABULARY, TargetTokens, looked_at
from eagle3_contract.verify.paths import Path as DraftPath
from eagle3_contract.verify.sample_set import SampleSet, layout_problem
from eagle3_contract.verify.steps import steps_and_drafts
from eagle3_contract.verify.target_tokens import NO_TARGET, TargetHead, of_sample

DIMENSION: Final = "alignment"
"""Of a sample that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a worker needs to measure samples by itself: paths (on a cluster absolute ones) and settings. It is sent as it is.

    ``spec_sha256`` is the digest of the contract file, so that a worker that finds another one refuses to count.
    """

    spec: str
    spec_sha256: str
    root: str
    stored: Recipe
    picked: tuple[int, ...]
    target: str | None
    device: str
    allow_pickle: bool
    limits: Limits


class Measurer:
    """Reads samples one at a time and measures each alone, by one thread. A context manager; holds one sample."""

    def __init__(
        self,
        loaded: LoadedContract,
        samples: SampleSet,
        path: DraftPath,
        head: TargetHead | None,
        no_head: UserError | None,
        limits: Limits,
    ) -> None:
        self._loaded, self._samples, self._path, self._no_head = loaded, samples, path, no_head
        self.head, self.device = head, path.drafter.device
        self._steps, self._drafts = steps_and_drafts(loaded.contract)
        self._definition = definition_of(loaded)
        self._targets_D = path.drafter.target_ids.cpu()
        self._drawn = np.unique(self._targets_D.numpy())  # not a table over the vocabulary, whose size is only a statement
        self._reader = SampleReader(allow_pickle=samples.allow_pickle, root=samples.root, limits=limits)

    def __enter__(self) -> Self:
        keep_freed_memory()
        self._reader.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._reader.__exit__(kind, error, trace)

    def file(self, file: str | Path) -> Outcome:
        """Read and measure one sample file. Never raises a ``UserError``: what makes a sample unusable is its outcome."""
        path = Path(file)
        name = self._reader.name_of(path)
        try:
            sample = self._reader.load(path)
            problem = layout_problem(sample, self._samples, self._path.reading.wiring.target_hidden_size)
            if problem is not None:
                return SampleProblem(name=name, check=problem)
            return self.sample(sample)
        except UserError as error:
            return SampleProblem(name=name, check=check_from_error(error, dimension=DIMENSION))

    def sample(self, sample: TrainingSample) -> SampleResult:
        """Measure one sample in memory. Raises like ``drafter.forward.draft_steps``."""
        with one_thread():
            target, missing = self._target_tokens(sample)
            states = [sample.states_THk[i] for i in self._samples.picked]
            best = self._path.choose(sample.input_ids_T, states, self._steps, document_ids_T=sample.document_ids_T)
            length, counts, why = measure(
                best,
                self._drafts,
                self._targets_D,
                sample.input_ids_T,
                sample.loss_mask_T,
                target,
                self._definition,
                sample.document_ids_T,
            )
        covered = counted = 0
        if target is not None and sample.loss_mask_T is not None:
            ids = target.full[sample.loss_mask_T.bool()].numpy()
            at = np.searchsorted(self._drawn, ids).clip(max=len(self._drawn) - 1)
            covered, counted = int((self._drawn[at] == ids).sum()), len(ids)
        return SampleResult(
            name=sample.name,
            rounds=length.rounds,
            accepted=length.accepted,
            right=None if counts is None else counts.right,
            rows=None if counts is None else counts.rows,
            covered=covered,
            counted=counted,
            missing=why if why is not None else missing,
        )

    def _target_tokens(self, sample: TrainingSample) -> tuple[TargetTokens | None, tuple[str, str] | None]:
        mask_T, stated = sample.loss_mask_T, self._loaded.contract.training.target_state
        wanted_T = None if mask_T is None else looked_at(mask_T, self._steps)
        within = self._definition in WITHIN_DRAFT_VOCABULARY
        target = of_sample(sample, self.head, stated, self._targets_D, wanted_T=wanted_T, draft=within)
        if target is not None:
            return target, None
        return None, (self._no_head.message, self._no_head.fix) if self._no_head is not None else NO_TARGET


def open_measurer(plan: Plan) -> Measurer:
    """Build what a plan describes, from its files.

    Raises:
        UserError: a file cannot be used any more; ``verify.contract-changed`` if the contract is another one than the plan was made for.
    """
    if file_digest(plan.spec) != plan.spec_sha256:
        raise InputRejected(
            f"{plan.spec} is not the contract that this run began with",
            rule="verify.contract-changed",
            fix="Leave the contract alone while it is verified, and let every machine see the same file.",
        )
    loaded = load_contract(plan.spec, limits=plan.limits)
    reading = resolve(loaded.contract)
    source = _source(loaded.drafter_folder, plan)
    target = None if plan.target is None else _source(Path(plan.target), plan)
    path = DraftPath.build(reading, source, target, torch.device(plan.device))
    head, no_head = open_head(target, plan.target)
    samples = SampleSet(
        root=Path(plan.root),
        files=(),
        stored=plan.stored,
        picked=plan.picked,
        allow_pickle=plan.allow_pickle,
        target_state=loaded.contract.training.target_state,
    )
    return Measurer(loaded, samples, path, head, no_head, plan.limits)


def open_head(target: WeightSource | None, folder: str | None) -> tuple[TargetHead | None, UserError | None]:
    """The target's norm and head, or why there is none (both None without a target)."""
    if target is None or folder is None:
        return None, None
    try:
        return TargetHead.load(target, load_json_file(Path(folder) / "config.json")), None
    except UserError as error:
        return None, error


def file_digest(file: str | Path) -> str:
    """``sha256:`` and the digest of a file. Raises InputRejected if it cannot be read."""
    with open_path(file) as opened:
        return f"sha256:{opened.sha256()}"


def tensor_digest(*tensors: Tensor) -> str:
    """``sha256:`` and the digest of the bytes of some tensors."""
    digest = hashlib.sha256()
    for x in tensors:
        digest.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: with several threads a matrix product may round otherwise, and an argmax that is nearly tied may flip."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _source(folder: Path, plan: Plan) -> CheckpointSource:
    checkpoint = Checkpoint.open(folder, limits=plan.limits, allow_pickle=plan.allow_pickle)
    checkpoint.raise_if_rejected()
    return CheckpointSource(checkpoint)
