"""Runs variants through SGLang, each in a process of its own: ``run_sglang.py JOBS.json``, in SGLang's environment.

A job is ``{"name", "folder", "target", "flags", "prompt", "max_new_tokens"}``; in its folder this leaves ``raw.pt`` (the probe's record),
``log.txt`` and ``outcome.json``. SGLang is imported once and then forked, which saves twenty seconds a variant; its processes fork, too.
"""

import json
import multiprocessing
import os
import pathlib
import sys

import torch
from apart import apart

UNSET = "__unset__"
LIMIT_S = 120
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def load():
    """Import SGLang's engine, with what it needs on a CPU made ready first."""
    # torchvision as published is built for CUDA and its operators do not load beside a CPU torch: it only needs to find their schemas.
    for schema in SCHEMAS:
        torch.library.define("torchvision::" + schema.split("(")[0], schema[schema.index("(") :])
    torch.cuda.synchronize = lambda *_, **__: None  # called unguarded by deepseek_v2 and kimi_k25_eagle3 when embeddings are shared

    import sglang.srt.entrypoints.engine
    import sglang.srt.layers.attention.intel_amx_backend
    import sglang.srt.managers.detokenizer_manager
    import sglang.srt.managers.scheduler
    import sglang.srt.models.kimi_k25_eagle3
    import sglang.srt.models.llama_eagle3
    import sglang.srt.speculative.eagle_worker_v2

    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *_, **__: None  # SGLang would set spawn, and import everything again
    return sglang.srt.entrypoints.engine.Engine


def arguments(job):
    given = {
        "model_path": job["target"],
        "device": "cpu",
        "dtype": "float32",
        "mem_fraction_static": 0.1,
        "max_total_tokens": 2048,
        "log_level": "info",
        "skip_server_warmup": True,
        "skip_tokenizer_init": True,
        "random_seed": 0,
        "context_length": 256,
        "disable_radix_cache": True,
        "prefill_attention_backend": "intel_amx",
        "decode_attention_backend": "intel_amx",
        "speculative_algorithm": "EAGLE3",
        "speculative_draft_model_path": job["folder"],
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
    } | job["flags"]
    return {k: v for k, v in given.items() if v != UNSET}


def run(make_engine, job):
    folder = pathlib.Path(job["folder"])
    engine = make_engine(**arguments(job))
    told = {"loaded": True}
    state = engine.get_server_info()["internal_states"][0]
    told["flags_in_effect"] = {k: state.get(k) for k in sorted(state) if k.startswith("speculative_") or k == "max_running_requests"}
    (folder / "outcome.json").write_text(json.dumps(told, default=str))
    wanted = {"temperature": 0, "max_new_tokens": job["max_new_tokens"], "ignore_eos": True}
    out = engine.generate(input_ids=job["prompt"], sampling_params=wanted)
    told |= {"answered": True, "output_ids": out["output_ids"], "counters": {k: v for k, v in out["meta_info"].items() if "spec" in k}}
    (folder / "outcome.json").write_text(json.dumps(told, default=str))


def main():
    make_engine = load()
    for job in json.loads(pathlib.Path(sys.argv[1]).read_text()):
        os.environ["CONTRACT_PROBE_OUT"] = job["folder"] + "/raw.pt"
        apart(job, lambda job: run(make_engine, job), LIMIT_S)


main()
