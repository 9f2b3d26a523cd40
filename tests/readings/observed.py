"""The recorded runs of real engines (data/*.jsonl), and the inputs a reading of them needs.

Each row is one tiny drafter that SGLang 0.5.23 or vLLM 0.32.0 really loaded on a CPU; ``observed`` comes from the engine and from numbers
computed from its tensors. Floats were filled with 1/64 while the drafter was built, so that memory nobody wrote can be told.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.readings.view import DrafterView, TensorHeader

DATA = Path(__file__).parent / "data"
UNSET = "__unset__"
CALLS: dict[str, dict[str, Any]] = {
    "sglang": {
        "device": "cpu",
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "context_length": 256,
        "dtype": "float32",
        "speculative_draft_model_path": "$DRAFT",
    },
    "vllm": {
        "device": "cpu",
        "dtype": "float32",
        "max_model_len": 256,
        "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3},
    },
}
"""The default call of each engine in these runs."""


def rows(engine: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{engine}.jsonl").read_text().splitlines()]


def flags(row: dict[str, Any]) -> dict[str, Any]:
    """The default call with the row's flags over it; ``__unset__`` leaves a flag out."""
    merged = _merge(CALLS[row["engine"]], row["flags"])
    if merged.get("model") == "$DRAFT":
        merged["model"] = row["id"]
    overrides = merged.get("json_model_override_args")
    if isinstance(overrides, str):
        merged["json_model_override_args"] = json.loads(overrides)
    return merged


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        if value == UNSET:
            merged.pop(key, None)
            if key == "speculative_draft_model_path":
                merged[key] = None
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def view(row: dict[str, Any]) -> DrafterView:
    files: dict[str, dict[str, TensorHeader]] = {}
    for tensor in row["drafter_header"]:
        files.setdefault(tensor["file"], {})[tensor["name"]] = TensorHeader(tensor["dtype"], tuple(tensor["shape"]))
    index = None
    missing: tuple[str, ...] = ()
    if "model.safetensors.index.json" in row["drafter_files"]:
        index = {t["name"]: t["file"] for t in row["drafter_header"]}
        shards = {f.split("-of-")[1] for f in files if "-of-" in f}
        total = int(next(iter(shards)).split(".")[0])
        wanted = [f"model-{i:05d}-of-{total:05d}.safetensors" for i in range(1, total + 1)]
        missing = tuple(f for f in wanted if f not in files)
    held = row["observed"].get("d2t") or {}
    span = (held["min"], held["max"]) if held.get("present") else None
    return DrafterView(config=row["drafter_config"], files=files, index=index, missing_files=missing, name=row["id"], d2t_span=span)


def predicted(row: dict[str, Any], runner: str | None = None) -> EngineReading:
    engine = f"{row['engine']}{f'[{runner}]' if runner else ''}=={row['version']}"
    (reading,) = read(view(row), engine, row["target_config"], flags(row))
    return reading
