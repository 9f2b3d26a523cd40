"""Capture from an engine that runs here: which engine, which recipe it feeds, which prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.errors import ToolError, UsageError, UserError
from contract.files.bundle_manifest import ImitatedEngine, ModelInfo
from contract.limits import DEFAULT_LIMITS, Limits
from contract.requests import CaptureRequest, VerifyRequest
from contract.statement import fact
from eagle3_contract.engines.assemble import Sampling
from eagle3_contract.engines.jobs import parse_runs
from eagle3_contract.engines.live import ENGINES, NEW_TOKENS, LiveOptions, bundle_of_spools, capture_live
from eagle3_contract.engines.prompt_lines import prompt_lines
from eagle3_contract.engines.rules import RULES
from eagle3_contract.engines.spool_read import open_spool
from eagle3_contract.engines.transformers import Prompt, Provenance, capture, file_digests
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.states import FINAL_NORM, Recipe
from eagle3_contract.readings.engines import parse_engine, read
from eagle3_contract.readings.load import load_drafter, load_target
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.reading import BOUNDARIES
from eagle3_contract.readings.serve_asked import bare, flags_for, refuse_unmatched
from eagle3_contract.verify.sample_set import SampleSet

REFERENCE: Final = "transformers"
RUNS_HERE: Final = (REFERENCE, *ENGINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """The recipe that an engine feeds, and which engine is imitated (None: the contract's own recipe)."""

    recipe: Recipe
    imitates: ImitatedEngine | None


def check_engine(name: str) -> None:
    """Raise ToolError (``engine.unknown``) unless this engine can be run by this tool."""
    if bare(name) not in RUNS_HERE:
        read = f"Use --engine {REFERENCE} --imitate {name} to feed what it would feed, or `contract check --engine {name}` for its reading."
        raise ToolError(
            f"{name} cannot be run by this version; it runs {', '.join(RUNS_HERE)}",
            rule="engine.unknown",
            fix=read if bare(name) in PROFILES else f"Name one of {', '.join(RUNS_HERE)}.",
        )


def fed_by(loaded: LoadedContract, imitate: str | None, target: str | Path) -> Fed:
    """Which recipe is fed: the contract's, or what an engine would make of the drafter's files.

    Raises:
        UsageError: the engine is not in the table, or has several runners that differ.
        ToolError: ``engine.imitate`` if it would not get as far as feeding anything.
    """
    if imitate is None:
        stated = fact(loaded.contract.hidden_states.boundaries)
        if not stated.known:
            raise UsageError(
                f"the contract's recipe is unknown ({stated.reason})",
                rule="contract.unknown-statement",
                fix="Answer hidden_states.boundaries in the contract, or name an engine with --imitate.",
            )
        return Fed(recipe=tuple(stated.value), imitates=None)
    ref = parse_engine(imitate)
    readings = read(load_drafter(loaded.drafter_folder), ref, load_target(target))
    recipes = {tuple(r.value(BOUNDARIES) or ()) for r in readings}
    if len(recipes) > 1:
        raise UsageError(
            f"the runners of {ref} feed different states: " + "; ".join(f"{r.reader} {r.value(BOUNDARIES)}" for r in readings),
            rule="engine.imitate",
            fix="Name one runner, such as vllm[v1]==0.32.0.",
        )
    first = readings[0]
    recipe = next(iter(recipes))
    if first.error is not None or not recipe:
        raise ToolError(
            f"{first.reader} would not feed anything: {first.error or 'its recipe is unknown'}",
            rule="engine.imitate",
            fix="Mend the drafter's files first: `contract read` shows what the engine makes of them.",
        )
    states: Recipe = tuple(FINAL_NORM if isinstance(s, str) else int(s) for s in recipe)
    return Fed(recipe=states, imitates=ImitatedEngine(name=first.engine, version=first.version, runner=first.runner))


def sample_prompts(samples: SampleSet, limits: Limits = DEFAULT_LIMITS) -> Iterator[Prompt]:
    """The tokens of every sample, as prompts that repeat it. Raises the first sample's error."""
    for number, sample in enumerate(samples.read(limits=limits)):
        if isinstance(sample, UserError):
            raise sample
        yield Prompt(id=f"sample-{number:04d}", input_ids=sample.input_ids_T, sample=sample.name)


def file_prompts(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> list[Prompt]:
    """Prompts from a JSON-lines file; see ``prompt_lines``, whose errors it raises."""
    return [Prompt(id=id_, input_ids=ids) for id_, ids in prompt_lines(path, limits)]


def options_for(engine: str, request: CaptureRequest | VerifyRequest, *, imitate: str | None = None) -> LiveOptions:
    """How an engine is run, from the request; what means nothing to the engine is refused.

    Raises:
        UsageError: ``engine.options``.
        ToolError: ``engine.unknown``.
    """
    check_engine(engine)
    given = {
        "--engine-python": request.engine_python,
        "--max-new-tokens": request.max_new_tokens,
        "--runs": request.runs or None,
        "--serve-args": request.serve_args or None,
    }
    lost = [name for name, value in given.items() if value is not None] if bare(engine) == REFERENCE else []
    lost += ["--imitate"] if imitate is not None and bare(engine) != REFERENCE else []
    if lost:
        raise UsageError(f"{', '.join(lost)} means nothing to {engine}", rule="engine.options", fix=RULES["engine.options"].remedy)
    if bare(engine) != REFERENCE:
        refuse_unmatched([engine], request.serve_args)
    return LiveOptions(
        python=request.engine_python,
        new_tokens=NEW_TOKENS if request.max_new_tokens is None else request.max_new_tokens,
        runs=parse_runs(request.runs),
        dtype=request.dtype,
    )


def capture_now(
    loaded: LoadedContract,
    *,
    engine: str,
    target: str | Path,
    out: str | Path,
    samples: SampleSet | None = None,
    prompts: Sequence[Prompt] | None = None,
    imitate: str | None = None,
    options: LiveOptions | None = None,
    serve_args: Mapping[str, str] | None = None,
    device: str = "auto",
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Run the target and write a bundle.

    Args:
        loaded: the contract.
        engine: which engine runs: ``transformers``, or ``vllm`` or ``sglang`` with the contract's drafter.
        target: the target's folder.
        out: the bundle to write.
        samples: run the tokens of these samples, or
        prompts: these prompts.
        imitate: feed what this engine would feed (transformers only).
        options: how vLLM or SGLang is run; of transformers the dtype only.
        serve_args: server command lines by engine (vLLM and SGLang).
        device: where to run.

    Raises:
        UserError: see ``check_engine``, ``fed_by``, ``engines.transformers.capture`` and ``engines.live.capture_live``.
    """
    check_engine(engine)
    chosen = sample_prompts(samples, limits) if samples is not None else iter(prompts or ())
    if bare(engine) != REFERENCE:
        return capture_live(
            loaded, chosen, engine=engine, target=target, out=out, options=options, serve_args=serve_args, device=device, limits=limits
        )
    fed = fed_by(loaded, imitate, target)
    stated = fact(loaded.contract.target.dtype)
    identity = fact(loaded.contract.target.id)
    drafter = ModelInfo(id=None, model_type=None, files=file_digests(loaded.drafter_folder, limits=limits))
    provenance = Provenance(target_id=str(identity.value) if identity.known else None, drafter=drafter, imitates=fed.imitates)
    asked = None if options is None else options.dtype
    return capture(
        target,
        chosen,
        fed.recipe,
        out,
        dtype=asked or (str(stated.value) if stated.known else "auto"),
        device=device,
        provenance=provenance,
        limits=limits,
    )


def capture_spool(loaded: LoadedContract, request: CaptureRequest, *, limits: Limits = DEFAULT_LIMITS) -> Path:
    """A bundle from what the plugins recorded inside a server that was started elsewhere.

    Raises:
        UserError: see ``engines.live.bundle_of_spools``.
    """
    asked = parse_engine(request.engine)
    spool = open_spool(str(request.spool), limits=limits)
    return bundle_of_spools(
        loaded,
        [spool],
        asked,
        target=request.target,
        out=request.out,
        flags=flags_for(request.engine, request.serve_args),
        sampling=Sampling(requests=request.max_requests, rows=request.max_rows, unfinished=True),
        limits=limits,
    )
