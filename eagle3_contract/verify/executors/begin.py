"""From a request to running workers: plan, executor, journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from contract.files.checkpoint import Checkpoint
from contract.findings import Json
from contract.limits import Limits
from contract.requests import VerifyRequest
from eagle3_contract.model.fingerprint import fingerprint
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.verify.executors.base import choose
from eagle3_contract.verify.executors.drive import drive, run_digest
from eagle3_contract.verify.executors.journal import Journal
from eagle3_contract.verify.executors.measure import Measurer, Plan, file_digest, tensor_digest
from eagle3_contract.verify.executors.result import Outcome
from eagle3_contract.verify.sample_set import SampleSet


@contextmanager
def measuring(
    request: VerifyRequest, loaded: LoadedContract, samples: SampleSet, measurer: Measurer, target: str | None, limits: Limits
) -> Iterator[tuple[Iterator[tuple[Outcome, bool]], dict[str, Json]]]:
    """The outcomes of all samples, each with whether it was known before, and how they are measured (for the report's provenance).

    ``target`` is the folder of the target if its weights are used.

    Raises:
        UserError: of the executor or of the journal, also while outcomes are taken.
    """
    plan = Plan(
        spec=str(loaded.path),
        spec_sha256=file_digest(loaded.path),
        root=str(samples.root),
        stored=samples.stored,
        picked=samples.picked,
        target=target,
        device=str(measurer.device),
        allow_pickle=request.allow_pickle,
        limits=limits,
    )
    files = list(samples.files)
    with ExitStack() as stack:
        journal = None
        if request.resume is not None:
            journal = stack.enter_context(Journal(request.resume, _run(plan, loaded, measurer)))
        if request.executor == "ray":
            # Other machines do not know what a path is relative to.
            plan, files = _absolute(plan), [path.absolute() for path in files]
        executor = choose(request.executor, request.workers, plan, measurer, len(files))
        outcomes = stack.enter_context(closing(drive(executor, Path(plan.root), files, journal)))
        yield outcomes, {"executor": request.executor, "workers": executor.workers, "resumed": 0}


def _absolute(plan: Plan) -> Plan:
    # Not abspath: it would also take `..` out, which leads elsewhere behind a link, and the files' names would not begin with it.
    spec, root, target = (None if p is None else str(Path(p).absolute()) for p in (plan.spec, plan.root, plan.target))
    return replace(plan, spec=str(spec), root=str(root), target=target)


def _run(plan: Plan, loaded: LoadedContract, measurer: Measurer) -> str:
    """Digest of everything that decides a count besides the sample itself."""
    drafter = Checkpoint.open(loaded.drafter_folder, limits=plan.limits, allow_pickle=plan.allow_pickle)
    parts = {"contract": plan.spec_sha256, "states": f"{plan.stored} {plan.picked}", "device": plan.device}
    parts |= {f"weights {shard.name}": drafter.sha256(shard.name) for shard in drafter.shards}
    if plan.target is not None:
        tensors = Checkpoint.open(plan.target, limits=plan.limits, allow_pickle=plan.allow_pickle).tensors
        parts["target"] = str(fingerprint(tensors))
    if measurer.head is not None:
        parts["head"] = tensor_digest(measurer.head.norm_G, measurer.head.head_VG)
    return run_digest(parts)
