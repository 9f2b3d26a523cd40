"""The child of a capture: ``python -m eagle3_contract.engines.vllm.runner JOB.json``, in vLLM's own environment.

Starts vLLM in this process, submits the job's prompts and writes the spool. Exit code 0, or a traceback whose last line says what was
wrong.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eagle3_contract.engines.job import Job, Prompt, job_of, labelled

EXTENSION: Final = "eagle3_contract.engines.vllm.extension.CaptureExtension"
ENVIRONMENT: Final = {
    # The engine in this process: no second one to leave behind, and its counters can be read.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}
CPU_ENVIRONMENT: Final = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
DEFAULTS: Final[Mapping[str, Any]] = {
    "skip_tokenizer_init": True,
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "disable_log_stats": False,
}
"""Arguments of ``vllm.LLM`` that a job need not name: prompts are token ids, and a plain run has no cache."""
COUNTERS: Final = {
    "rounds": "vllm:spec_decode_num_drafts",
    "drafted_tokens": "vllm:spec_decode_num_draft_tokens",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens",
}
RAW: Final = ("vllm:spec_decode", "vllm:prefix_cache", "vllm:num_preemptions", "vllm:prompt_tokens", "vllm:generation_tokens")


def arguments(job: Job) -> dict[str, Any]:
    """The arguments of ``vllm.LLM``: the job's flags over the defaults, with this drafter."""
    flags = {**DEFAULTS, **job.flags}
    speculative = {"method": "eagle3", "num_speculative_tokens": 3, **flags.pop("speculative_config", {}), "model": job.drafter}
    return {**flags, "model": job.target, "speculative_config": speculative, "worker_extension_cls": EXTENSION}


def counters(metrics: Sequence[Any]) -> dict[str, float]:
    """vLLM's counters by name; a vector's entries as ``name:position``."""
    found: dict[str, float] = {}
    for metric in metrics:
        if not metric.name.startswith(RAW):
            continue
        if hasattr(metric, "values"):
            for position, value in enumerate(metric.values):
                name = f"{metric.name}:{position}"
                found[name] = found.get(name, 0.0) + float(value)
        elif type(metric).__name__ == "Counter":
            found[metric.name] = found.get(metric.name, 0.0) + float(metric.value)
    return found


def counted(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What the engine counted in between, under its own names and, where it has them, under those of ``COUNTERS``."""
    raw = {name: value - before.get(name, 0.0) for name, value in after.items()}
    return raw | {ours: raw[theirs] for ours, theirs in COUNTERS.items() if theirs in raw}


def run(job: Job) -> None:
    """Start vLLM, submit everything, write the spool."""
    import vllm

    given = arguments(job)
    engine = vllm.LLM(**given)
    flags = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
        if name not in ("model", "worker_extension_cls")
    }
    flags["speculative_config"] = json.dumps({k: v for k, v in given["speculative_config"].items() if k != "model"})
    submissions = labelled(job)
    flat = [name for group in submissions for name, _, _ in group]
    recorded = frozenset(flat if job.record_prompts_max is None else flat[: job.record_prompts_max])
    options = {
        "folder": job.spool,
        "limit_bytes": job.limit_bytes,
        "sweep": job.sweep,
        "flags": flags,
        "only": sorted(recorded),
    }
    before = counters(engine.get_metrics())
    engine.collective_rpc("eagle3_contract_start", args=(json.dumps(options),))
    sampling = vllm.SamplingParams(temperature=0, max_tokens=job.max_new_tokens, detokenize=False, ignore_eos=True)
    for group in submissions:
        _submit(engine, group, recorded, sampling)
    done = counted(before, counters(engine.get_metrics()))
    engine.collective_rpc("eagle3_contract_stop", args=(json.dumps(done),))


def _submit(engine: Any, group: Sequence[tuple[str, Prompt, str]], recorded: frozenset[str], sampling: Any) -> None:
    for name, prompt, run in group:
        if name in recorded:
            facts = {"request": name, "prompt_id": prompt.id, "sample": prompt.sample, "run": run}
            _event(engine, "prompt", facts, {"input_ids": prompt.input_ids})
        engine.llm_engine.add_request(name, {"prompt_token_ids": prompt.input_ids}, sampling)
    while engine.llm_engine.has_unfinished_requests():
        for output in engine.llm_engine.step():
            if output.finished and output.request_id in recorded:
                _event(engine, "output", {"request": output.request_id}, {"output_ids": list(output.outputs[0].token_ids)})


def _event(engine: Any, kind: str, facts: dict[str, Any], tensors: dict[str, list[int]]) -> None:
    engine.collective_rpc("eagle3_contract_event", args=(json.dumps({"kind": kind, "facts": facts, "tensors": tensors}),))


def main(arguments_: Sequence[str]) -> int:
    """``JOB.json``."""
    job = job_of(arguments_, "eagle3_contract.engines.vllm.runner")
    for name, value in (ENVIRONMENT | CPU_ENVIRONMENT).items():
        os.environ.setdefault(name, value)
    run(job)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
