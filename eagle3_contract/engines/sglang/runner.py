"""Runs one job through SGLang's Engine and leaves a spool: ``python -m eagle3_contract.engines.sglang.runner JOB.json``.

Runs in SGLang's environment, as the child of ``eagle3_contract.engines.live``. The engine's processes record by themselves
(``plugin.py``), switched on by environment variables that they inherit; this process starts the engine, sends the prompts, and writes
the engine's own counters at the end. What the CPU needs beside SGLang (kernels, for one) comes through the environment
(docs/engines/sglang.md): nothing of it is here.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from eagle3_contract.engines.job import Job, job_of, labelled
from eagle3_contract.engines.sglang import hook_points, plugin
from eagle3_contract.engines.spool import Spool

GROUP: Final = "sglang.srt.plugins"
ENTRY_POINT: Final = "eagle3_contract"
DEFAULTS: Final[Mapping[str, Any]] = {
    "speculative_algorithm": "EAGLE3",
    "disable_cuda_graph": True,
    "skip_tokenizer_init": True,
    "skip_server_warmup": True,
    "random_seed": 0,
    "log_level": "warning",
}
"""Arguments of ``sglang.Engine`` where a job does not name them. Hooks need eager mode; a warm-up would be recorded."""


def main(arguments: list[str]) -> int:
    """Run the job that the only argument names."""
    job = job_of(arguments, "eagle3_contract.engines.sglang.runner")
    with prepared(job):
        run(job)
    return 0


@contextlib.contextmanager
def prepared(job: Job) -> Iterator[None]:
    """Whether SGLang has all that is hooked, and the environment that its processes inherit; both ways of running need them.

    Raises:
        HookPointsMissing: SGLang is another one than the hooks were written for.
    """
    hook_points.require(hook_points.FOR_CAPTURE)
    with tempfile.TemporaryDirectory(prefix="eagle3-contract-") as folder:
        prepare(job, Path(folder))
        yield


def labels(job: Job) -> dict[str, dict[str, Any]]:
    """What the plugin calls each request."""
    return {name: {"prompt_id": prompt.id, "sample": prompt.sample, "run": run} for group in labelled(job) for name, prompt, run in group}


def prepare(job: Job, folder: Path) -> None:
    """Set the environment that the engine's processes inherit, with the plugin's entry point where it is not installed."""
    (folder / "labels.json").write_text(json.dumps(labels(job)), "utf-8")
    os.environ[plugin.CAPTURE] = job.spool
    os.environ[plugin.LABELS] = str(folder / "labels.json")
    os.environ[plugin.SWEEP] = "1" if job.sweep else "0"
    if job.limit_bytes is not None:
        os.environ[plugin.LIMIT] = str(job.limit_bytes)
    if not any(e.name == ENTRY_POINT for e in importlib.metadata.entry_points(group=GROUP)):
        write_entry_point(folder)
        sys.path.insert(0, str(folder))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def write_entry_point(folder: Path) -> None:
    """Metadata of a distribution that has nothing but the plugin's entry point."""
    info = folder / "eagle3_contract_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: eagle3-contract-plugin\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{ENTRY_POINT} = {plugin.__name__}:register\n", "utf-8")


def run(job: Job) -> None:
    """Start the engine, submit everything, and write down what it counted."""
    engine = importlib.import_module("sglang").Engine(**arguments_of(job))
    try:
        counters = submit(job, lambda **asked: engine.generate(**asked))
        # Answers leave the scheduler before it has written its events down; it answers this one after that.
        engine.get_server_info()
    finally:
        engine.shutdown()
    finish(Path(job.spool), counters)


def arguments_of(job: Job) -> dict[str, Any]:
    """Flags by keyword: the job's over the defaults, with its models."""
    return {**DEFAULTS, **job.flags, "model_path": job.target, "speculative_draft_model_path": job.drafter}


def submit(job: Job, generate: Callable[..., Iterable[Mapping[str, Any]]]) -> dict[str, float]:
    """Hand every submission to ``generate`` (``input_ids``, ``sampling_params``, ``rid``); the sum of what SGLang counted."""
    sampling = {"temperature": 0, "max_new_tokens": job.max_new_tokens, "ignore_eos": True}
    counters: dict[str, float] = {}
    for group in labelled(job):
        asked = {"input_ids": [prompt.input_ids for _, prompt, _ in group], "rid": [name for name, _, _ in group]}
        for answer in generate(**asked, sampling_params=sampling):
            add_counters(counters, answer["meta_info"])
    return counters


def add_counters(total: dict[str, float], meta: Mapping[str, Any]) -> None:
    """Add SGLang's own counters of one request (0.5.23, managers/tokenizer_manager.py:3138-3200), and those of the prompt cache.

    ``drafted_tokens`` is ``rounds * (num_draft_tokens - 1)``: SGLang's number of proposed drafts.
    """
    names = {
        "rounds": "spec_verify_ct",
        "drafted_tokens": "spec_num_proposed_drafts",
        "accepted_tokens": "spec_num_correct_drafts",
        "output_tokens": "completion_tokens",
        "cached_tokens": "cached_tokens",
    }
    for name, key in names.items():
        total[name] = total.get(name, 0) + float(meta.get(key, 0))


def finish(spool: Path, counters: Mapping[str, float]) -> None:
    """Write the last event, once the engine is down."""
    Spool(spool).event("end", counters=dict(counters))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
