"""Runs one job through SGLang's Engine and leaves a spool: ``python -m eagle3_contract.engines.sglang.runner JOB.json``.

Runs in SGLang's environment, as the child of ``eagle3_contract.engines.live``. The engine's processes record by themselves
(``plugin.py``), switched on by environment variables that they inherit; this process starts the engine, sends the prompts, and writes
the engine's own counters at the end. What the CPU needs beside SGLang (kernels, for one) comes through the environment
(docs/engines/sglang.md): nothing of it is here.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

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
    if len(arguments) != 1:
        raise SystemExit("usage: python -m eagle3_contract.engines.sglang.runner JOB.json")
    job = json.loads(Path(arguments[0]).read_text("utf-8"))
    hook_points.require(hook_points.FOR_CAPTURE)
    with tempfile.TemporaryDirectory(prefix="eagle3-contract-") as folder:
        prepare(job, Path(folder))
        run(job)
    return 0


def requests(job: Mapping[str, Any]) -> list[list[tuple[str, int]]]:
    """For each submission its requests: a unique id and the index of the prompt. A prompt that a run repeats gets a number."""
    seen: dict[str, int] = {}
    found = []
    for submission in job["submissions"]:
        group = []
        for index in submission["prompts"]:
            name = f"{submission['run']}/{job['prompts'][index]['id']}"
            seen[name] = seen.get(name, 0) + 1
            group.append((name if seen[name] == 1 else f"{name}#{seen[name]}", index))
        found.append(group)
    return found


def labels(job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the plugin calls each request."""
    found = {}
    for submission, group in zip(job["submissions"], requests(job), strict=True):
        for request, index in group:
            prompt = job["prompts"][index]
            found[request] = {"prompt_id": prompt["id"], "sample": prompt["sample"], "run": submission["run"]}
    return found


def prepare(job: Mapping[str, Any], folder: Path) -> None:
    """Set the environment that the engine's processes inherit, with the plugin's entry point where it is not installed."""
    (folder / "labels.json").write_text(json.dumps(labels(job)), "utf-8")
    os.environ[plugin.CAPTURE] = str(job["spool"])
    os.environ[plugin.LABELS] = str(folder / "labels.json")
    os.environ[plugin.SWEEP] = "1" if job["sweep"] else "0"
    if job["limit_bytes"] is not None:
        os.environ[plugin.LIMIT] = str(job["limit_bytes"])
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


def run(job: Mapping[str, Any]) -> None:
    """Start the engine, submit everything, and write down what it counted."""
    flags = {**DEFAULTS, **job["flags"], "model_path": job["target"], "speculative_draft_model_path": job["drafter"]}
    sampling = {"temperature": 0, "max_new_tokens": job["max_new_tokens"], "ignore_eos": True}
    counters: dict[str, float] = {}
    engine = importlib.import_module("sglang").Engine(**flags)
    try:
        for group in requests(job):
            prompts = [job["prompts"][index]["input_ids"] for _, index in group]
            answers = engine.generate(input_ids=prompts, sampling_params=sampling, rid=[request for request, _ in group])
            for answer in answers:
                add_counters(counters, answer["meta_info"])
        # Answers leave the scheduler before it has written its events down; it answers this one after that.
        engine.get_server_info()
    finally:
        engine.shutdown()
    finish(Path(job["spool"]), counters)


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
