"""``contract draft``."""

from __future__ import annotations

from pathlib import Path

from contract.answers import Answer
from contract.errors import UsageError
from contract.files.checkpoint import Checkpoint
from contract.requests import DraftRequest
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.draft_files import draft as run
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load_view import load_view, open_view
from eagle3_contract.model.wiring import Reading
from eagle3_contract.trainers.reading import BOUNDARIES, TargetFacts

CONTRACT_SUFFIXES = (".yaml", ".yml")


def draft(request: DraftRequest) -> Answer:
    """Run the drafter alone. The wiring is the contract's if one is named (``--spec``, or DRAFTER is a contract file), else what the
    trainer's adapter reads from the checkpoint, or an engine's reading.

    Raises:
        UserError: the files, the wiring or the inputs cannot be used.
    """
    spec = request.spec if request.spec is not None else request.drafter if request.drafter.endswith(CONTRACT_SUFFIXES) else None
    folder = Path(request.drafter)
    if spec is not None:
        from eagle3_contract.model.load import load_contract

        loaded = load_contract(spec)
        folder = loaded.drafter_folder if request.drafter == spec else folder
    reading, notes = _reading(request, spec, folder)
    opened = open_view(folder, allow_pickle=request.allow_pickle)
    source = CheckpointSource.of(opened.tensors, str(folder))
    target: WeightSource | None = CheckpointSource(_open(Path(request.target))) if request.target is not None else None
    run(reading.wiring, source, target, request.inputs, request.steps, request.out, request.device)
    lines = [f"{request.out}: {request.steps} steps with the wiring of {reading.reader}", *notes]
    return Answer(text="\n".join(lines), data={"out": request.out, "steps": request.steps, "wiring": reading.reader, "assumed": notes})


def _open(folder: Path) -> Checkpoint:
    checkpoint = Checkpoint.open(folder)
    checkpoint.raise_if_rejected()
    return checkpoint


def _reading(request: DraftRequest, spec: str | None, folder: Path) -> tuple[Reading, list[str]]:
    if request.wiring == "training":
        if spec is not None:
            from eagle3_contract.model.load import load_contract
            from eagle3_contract.model.resolve import resolve

            return resolve(load_contract(spec).contract, rollout=False), []
        return _trainers(folder, request)
    return _engines(request, folder), []


def _trainers(folder: Path, request: DraftRequest) -> tuple[Reading, list[str]]:
    from eagle3_contract.trainers.base import choose

    view = load_view(folder, allow_pickle=request.allow_pickle)
    trainer, _ = choose(view)
    found = trainer.wiring(view, _facts(request.target))
    reading = found.resolve(recipe=False, assume=True)
    return reading, [f"assumed: {path} = {value}" for path, value in found.assumed().items() if path != BOUNDARIES]


def _facts(target: str | None) -> TargetFacts:
    from eagle3_contract.readings.load import load_target

    if target is None:
        return TargetFacts()
    config = load_target(target)

    def size(key: str) -> int | None:
        value = config.get(key)
        return value if isinstance(value, int) else None

    family = config.get("model_type")
    return TargetFacts(
        layers=size("num_hidden_layers"),
        hidden_size=size("hidden_size"),
        vocab_size=size("vocab_size"),
        model_type=family if isinstance(family, str) else None,
    )


def _engines(request: DraftRequest, folder: Path) -> Reading:
    from eagle3_contract.readings.engines import read
    from eagle3_contract.readings.forward import CannotRun, to_reading
    from eagle3_contract.readings.load import load_drafter, load_target

    readings = read(
        load_drafter(folder, allow_pickle=request.allow_pickle),
        request.wiring,
        load_target(request.target) if request.target is not None else None,
    )
    runnable = [to_reading(r) for r in readings]
    first = runnable[0]
    if isinstance(first, CannotRun):
        raise UsageError(first.reason, rule="drafter.engine-wiring", fix="See `contract read` for what this engine makes of the drafter.")
    differing = [r for r in runnable[1:] if isinstance(r, CannotRun) or r.wiring != first.wiring]
    if differing:
        raise UsageError(
            f"the runners of {request.wiring} run different drafters: " + ", ".join(r.reader for r in readings),
            rule="drafter.engine-wiring",
            fix=f"Name one, such as {readings[0].reader}.",
        )
    return first
