"""Capture from a running vLLM or SGLang: started here, in its own environment, with our hooks; what they write becomes a bundle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contract.errors import UsageError
from contract.files.bundle_manifest import ModelInfo
from contract.files.bundle_writer import free_place, hidden_stem, write_failed
from contract.limits import DEFAULT_LIMITS, Limits
from contract.progress import progress
from contract.statement import fact
from eagle3_contract.engines.assemble import Sampling, assemble
from eagle3_contract.engines.child import environment, package_path, run_child
from eagle3_contract.engines.engine_flags import Work, engine_flags, environment_of
from eagle3_contract.engines.installed import TESTED, Installed, installed, interpreter
from eagle3_contract.engines.jobs import APART, PLAIN, starts, submissions, token_lists, write_job
from eagle3_contract.engines.rules import RULES, rejected, tool_error
from eagle3_contract.engines.spool_events import Start
from eagle3_contract.engines.spool_read import Spool, open_spool
from eagle3_contract.engines.transformers import Prompt, file_digests
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.states import FINAL_NORM, Recipe
from eagle3_contract.readings.engines import EngineRef, read
from eagle3_contract.readings.load import load_config, load_drafter, load_target
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.reading import BOUNDARIES
from eagle3_contract.readings.serve_asked import flags_for
from eagle3_contract.verify.steps import steps_and_drafts

ENGINES: Final = tuple(TESTED)
NEW_TOKENS: Final = 32
"""Tokens generated for each prompt, unless asked otherwise."""
_COMMON: Final = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
ON_CPU: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        **_COMMON,
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    },
    "sglang": {**_COMMON, "SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1"},
}
"""Environment variables without which an engine does not run on a CPU, or not offline; what is set already stands."""
ON_CUDA: Final[Mapping[str, Mapping[str, str]]] = {"vllm": {**_COMMON, "VLLM_NO_USAGE_STATS": "1"}, "sglang": _COMMON}
V2_SWITCH: Final = "VLLM_USE_V2_MODEL_RUNNER"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How an engine is run.

    Attributes:
        python: the interpreter that has it; ours if None.
        new_tokens: generated for each prompt.
        runs: under which circumstances each prompt is run (``jobs.RUNS``; ``""`` is the plain run).
        dtype: that it computes in; the contract's if None.
        sweep: record every boundary, not the slots only; attribution needs them.
    """

    python: str | None = None
    new_tokens: int = NEW_TOKENS
    runs: tuple[str, ...] = (PLAIN,)
    dtype: str | None = None
    sweep: bool = True


def capture_live(
    loaded: LoadedContract,
    prompts: Iterable[Prompt],
    *,
    engine: str,
    target: str | Path,
    out: str | Path,
    options: LiveOptions | None = None,
    serve_args: Mapping[str, str] | None = None,
    device: str = "auto",
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Start the engine, run the prompts, and write a bundle. Nothing of the engine is left running or on disk.

    Args:
        loaded: the contract; its drafter is served.
        prompts: what to run.
        engine: ``vllm``, ``sglang``, with a runner and a version or without.
        target: the target's folder.
        out: the bundle, a free name or an empty folder.
        options: how it is run.
        serve_args: server command lines by engine; they are laid over the defaults.
        device: ``auto``, ``cpu`` or ``cuda``.
        limits: the bounds.

    Raises:
        UserError: the engine is not there, is another version, fails, hangs, or records what does not fit together.
    """
    chosen, place = options or LiveOptions(), free_place(Path(out).absolute())  # the engine runs in a folder of its own
    there = installed(engine, chosen.python)
    given = flags_for(engine, serve_args or {})
    config = load_config(target, limits=limits, whose="target")
    vocabulary = config.get("vocab_size")
    listed = token_lists(prompts, vocabulary if isinstance(vocabulary, int) else None)
    work = _work(loaded, listed, chosen, config, _on_cuda(there, device))
    spools: list[Spool] = []
    groups = starts(chosen.runs)
    with (
        _folder_beside(place) as folder,
        progress(len(groups), f"starts of {there.ref.name}") as tick,
    ):
        for number, runs in enumerate(groups):
            spool = Path(folder) / f"spool-{number}"
            job = {
                "engine": there.ref.name,
                "target": str(Path(target).resolve()),
                "drafter": str(loaded.drafter_folder.resolve()),
                "spool": str(spool),
                "limit_bytes": limits.capture_bytes,
                "sweep": chosen.sweep,
                "flags": engine_flags(there.ref.name, work, runs[0] if runs[0] in APART else PLAIN, given),
                "prompts": listed,
                "submissions": submissions(runs, len(listed)),
                "max_new_tokens": chosen.new_tokens,
                "record_prompts_max": None,
            }
            write_job(Path(folder) / f"job-{number}.json", **job)
            _start(there, chosen, Path(folder) / f"job-{number}.json", environment_of(given), work.cuda, limits)
            spools.append(open_spool(spool, limits=limits))
            tick()
        flags = engine_flags(there.ref.name, work, PLAIN, given)
        return bundle_of_spools(loaded, spools, there.ref, target=target, out=out, flags=flags, limits=limits)


def _folder_beside(place: Path) -> tempfile.TemporaryDirectory[str]:
    """For the spools, where there is room for the bundle, too. Raises InputRejected (``files.write-failed``)."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=f".{hidden_stem(place)}.", suffix=".spools", dir=place.parent)
    except OSError as error:
        raise write_failed(place, error) from error


def bundle_of_spools(
    loaded: LoadedContract,
    spools: Sequence[Spool],
    asked: EngineRef,
    *,
    target: str | Path,
    out: str | Path,
    flags: Mapping[str, Any] | None = None,
    sampling: Sampling | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """A bundle from what hooks wrote into spools, here or inside a server.

    Args:
        loaded: the contract whose drafter was served.
        spools: from as many starts of one engine.
        asked: the engine that they are said to be from.
        target: the target's folder.
        out: the bundle.
        flags: with which the engine ran, by name; a reading may depend on them. None is a flag that was not given.
        sampling: how much is kept.
        limits: the bounds.

    Raises:
        ToolError: ``engine.version`` (they are from another engine) or ``engine.recipe-unknown``.
        UserError: as ``assemble``.
    """
    start = spools[0].start
    ran = EngineRef(start.engine, start.runner, start.version.partition("+")[0])
    if any(mine is not None and mine != theirs for mine, theirs in zip(_parts(asked), _parts(ran), strict=True)):
        raise tool_error("engine.version", f"{asked} was asked for, and {ran} ran")
    config = load_config(target, limits=limits, whose="target")
    identity = fact(loaded.contract.target.id)
    model_type, width = config.get("model_type"), config.get("hidden_size")
    return assemble(
        spools,
        out,
        recipe=recipe_read(loaded, start, target, {k: v for k, v in (flags or {}).items() if v is not None}),
        target=ModelInfo(
            id=str(identity.value) if identity.known else None,
            model_type=model_type if isinstance(model_type, str) else None,
            files=file_digests(target, limits=limits),
        ),
        drafter=ModelInfo(id=None, model_type=None, files=file_digests(loaded.drafter_folder, limits=limits)),
        width=width if isinstance(width, int) else None,
        sampling=sampling,
        limits=limits,
    )


def recipe_read(loaded: LoadedContract, start: Start, target: str | Path, flags: Mapping[str, Any]) -> Recipe:
    """The states that the engine feeds this drafter, by the reading of its files; the ids that it had set are in its own numbering.

    Raises:
        ToolError: ``engine.recipe-unknown``.
    """
    profile = PROFILES.get(start.engine)
    runner = start.runner if profile is not None and start.runner in profile.runners else None
    ref = EngineRef(start.engine, runner, start.version.partition("+")[0])
    readings = read(load_drafter(loaded.drafter_folder), ref, load_target(target), flags)
    recipes = {tuple(r.value(BOUNDARIES) or ()) for r in readings}
    (recipe, *others) = recipes
    if others or not recipe:
        error = next((f"; it expects {r.error}" for r in readings if r.error is not None), "")
        said = "nothing" if not recipe else "; ".join(str(list(r)) for r in recipes)
        raise tool_error(
            "engine.recipe-unknown", f"{ref} ran with layer ids {start.layer_ids}, and its reading says that it feeds {said}{error}"
        )
    return tuple(FINAL_NORM if isinstance(state, str) else int(state) for state in recipe)


def _parts(ref: EngineRef) -> tuple[str | None, str | None, str | None]:
    return ref.name, ref.runner, ref.version


def _on_cuda(there: Installed, device: str) -> bool:
    if device == "auto":
        return there.cuda
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not there.cuda):
        raise rejected("engine.device", f"{there.ref.name} has no device {device} here")
    return kind == "cuda"


def _work(
    loaded: LoadedContract, prompts: Sequence[Mapping[str, Any]], options: LiveOptions, config: Mapping[str, Any], cuda: bool
) -> Work:
    if not prompts:
        raise UsageError("there are no prompts to run", rule="engine.samples-needed", fix=RULES["engine.samples-needed"].remedy)
    lengths = [len(p["input_ids"]) for p in prompts]
    positions = config.get("max_position_embeddings")
    known = positions if isinstance(positions, int) and not isinstance(positions, bool) else None
    if known is not None and max(lengths) + options.new_tokens > known:
        worst = prompts[lengths.index(max(lengths))]
        raise rejected(
            "engine.prompt",
            f"prompt {worst['id']} has {max(lengths)} tokens, and {options.new_tokens} new ones go beyond the target's {known} positions",
            fix=f"Ask for fewer with --max-new-tokens ({max(0, known - max(lengths))} at most), or give shorter prompts.",
        )
    stated = fact(loaded.contract.target.dtype)
    _, drafts = steps_and_drafts(loaded.contract)
    topk, nodes = fact(loaded.contract.serving.topk), fact(loaded.contract.serving.draft_tokens)
    branches = int(topk.value) if topk.known else 1
    return Work(
        prompts=len(prompts),
        longest=max(lengths),
        total=sum(lengths),
        new_tokens=options.new_tokens,
        positions=known,
        drafts=drafts,
        topk=branches,
        nodes=int(nodes.value) if nodes.known and branches > 1 else drafts + 1,
        dtype=options.dtype or (str(stated.value) if stated.known else "auto"),
        cuda=cuda,
    )


def _start(there: Installed, options: LiveOptions, job: Path, given: Mapping[str, str], cuda: bool, limits: Limits) -> None:
    """Run one job. The serving command's variables beat those of this process, as they would in a shell."""
    name = there.ref.name
    more = dict((ON_CUDA if cuda else ON_CPU)[name])
    if name == "vllm" and there.ref.runner is not None:
        given = {V2_SWITCH: "1" if there.ref.runner == "v2" else "0", **given}
    tested = TESTED[name]
    hint = "" if there.version in tested else f"This is {name} {there.version}; the hooks were run on {' and '.join(tested)}."
    with package_path() as path:
        env = {**environment(path, more), **given}
        command = [interpreter(options.python), "-m", f"eagle3_contract.engines.{name}.runner", str(job)]
        run_child(command, engine=name, env=env, folder=job.parent, hint=hint, limits=limits)
