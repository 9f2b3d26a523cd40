"""A drafter with exactly the shapes of specs/kimi-k2.5-eagle3.yaml: d2t and t2d are real, everything else is a hole in the file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from contract.files.safetensors_header import read_header
from contract.files.writing import write_sparse_safetensors
from eagle3_contract.model.load import load_contract

SPECS = Path(__file__).parents[2] / "specs"
KIMI = SPECS / "kimi-k2.5-eagle3.yaml"
CODES = {"bfloat16": "BF16", "float32": "F32", "int64": "I64", "bool": "BOOL"}
DRAFT, TARGET = 32000, 163840
LEADING_ZEROS = 101
"""The report prints hot_token_id[100] = 100: the first 101 offsets are 0."""

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 7168,
    "intermediate_size": 12288,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
    "vocab_size": TARGET,
    "draft_vocab_size": DRAFT,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "max_position_embeddings": 262144,
    "rope_theta": 50000.0,
    "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [0, 3, 31]},
}

Headers = dict[str, tuple[str, list[int]]]


def headers() -> Headers:
    """Name to dtype and shape of every stored tensor, in the names that the trainer writes."""
    contract = msgspec.to_builtins(load_contract(KIMI).contract)
    stored = {n: t for n, t in contract["tensors"].items() if t["stored"]}
    plain: Headers = {}
    for name, spec in stored.items():
        dtype = spec["dtype"]["value"] if isinstance(spec["dtype"], dict) else spec["dtype"]
        plain[name.replace("layers.0.", "midlayer.")] = (CODES[dtype], list(spec["shape"]))
    return plain


def offsets() -> np.ndarray[Any, np.dtype[np.int64]]:
    """An offset map like the one of the report: the first 101 ids are all kept, later ones are spread over the rest."""
    tail = np.linspace(LEADING_ZEROS + 1, TARGET - 1, DRAFT - LEADING_ZEROS).astype(np.int64)
    targets = np.concatenate([np.arange(LEADING_ZEROS), tail])
    return targets - np.arange(DRAFT)


def write(folder: Path, tensors: Headers, d2t: np.ndarray[Any, Any], config: dict[str, Any]) -> Path:
    """Write drafter and contract; returns the contract's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    weights = folder / "model.safetensors"
    write_sparse_safetensors(weights, tensors)
    mask = np.zeros(TARGET, dtype=bool)
    inside = offsets() + np.arange(DRAFT)
    mask[inside] = True
    entries = {e.name: e for e in read_header(weights).entries}
    start = read_header(weights).data_start
    with open(weights, "r+b") as file:
        for name, values in (("d2t", d2t.tobytes()), ("t2d", mask.tobytes())):
            if name in entries:
                room = entries[name].end - entries[name].begin
                file.seek(start + entries[name].begin)
                file.write(values[:room])
        file.flush()
        os.fsync(file.fileno())
    shutil.copy(KIMI, folder / "contract.yaml")
    return folder / "contract.yaml"
