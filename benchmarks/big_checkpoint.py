"""A sharded checkpoint of Kimi-K2.5's shape, made of sparse files: true headers and index, no data behind them.

Orders are those of the writers: tensors of a shard by size of dtype, then by name (safetensors); the index by name (huggingface_hub).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Size:
    """Layers, routed experts and shards of the checkpoint, its widths, and rows of its vocabulary."""

    layers: int = 61
    experts: int = 384
    shards: int = 200
    hidden: int = 7168
    expert_width: int = 2048
    vocab: int = 163840


FULL = Size()
TINY = Size(layers=3, experts=4, shards=5, hidden=64, expert_width=32, vocab=256)
_BYTES = {"BF16": 2, "F32": 4, "I32": 4}
PREFIX = "language_model.model."


def tensors(size: Size) -> Iterator[tuple[str, str, list[int]]]:
    """(name, dtype, shape): attention in bfloat16, routed experts as 4 bit integers packed into int32 with scales and shapes."""
    h, e = size.hidden, size.expert_width
    yield PREFIX + "embed_tokens.weight", "BF16", [size.vocab, h]
    for layer in range(size.layers):
        at = f"{PREFIX}layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{norm}.weight", "BF16", [h]
        for name, shape in (
            ("q_a_proj", [1536, h]),
            ("q_b_proj", [12288, 1536]),
            ("kv_a_proj_with_mqa", [576, h]),
            ("kv_b_proj", [16384, 512]),
            ("o_proj", [h, 8192]),
        ):
            yield f"{at}self_attn.{name}.weight", "BF16", shape
        yield f"{at}self_attn.q_a_layernorm.weight", "BF16", [1536]
        yield f"{at}self_attn.kv_a_layernorm.weight", "BF16", [512]
        parts = (("gate_proj", e, h), ("up_proj", e, h), ("down_proj", h, e))
        if layer == 0:
            for part, rows, columns in parts:
                yield f"{at}mlp.{part}.weight", "BF16", [9 * rows if rows == e else rows, columns if columns == h else 9 * columns]
            continue
        yield f"{at}mlp.gate.weight", "BF16", [size.experts, h]
        yield f"{at}mlp.gate.e_score_correction_bias", "F32", [size.experts]
        for part, rows, columns in parts:
            yield f"{at}mlp.shared_experts.{part}.weight", "BF16", [rows, columns]
        for expert in range(size.experts):
            for part, rows, columns in parts:
                name = f"{at}mlp.experts.{expert}.{part}."
                yield name + "weight_packed", "I32", [rows, columns // 8]
                yield name + "weight_scale", "BF16", [rows, columns // 32]
                yield name + "weight_shape", "I32", [2]
    yield PREFIX + "norm.weight", "BF16", [h]
    yield "language_model.lm_head.weight", "BF16", [size.vocab, h]


def write(folder: Path, size: Size) -> tuple[int, int]:
    """Write config, index and shards; (tensors, apparent bytes)."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = list(tensors(size))
    per_shard = -(-len(everything) // size.shards)
    weight_map: dict[str, str] = {}
    total = 0
    for shard in range(size.shards):
        name = f"model-{shard + 1:05d}-of-{size.shards:06d}.safetensors"
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        at = 0
        held = everything[shard * per_shard : (shard + 1) * per_shard]
        for tensor, dtype, shape in sorted(held, key=lambda t: (-_BYTES[t[1]], t[0])):
            count = _BYTES[dtype]
            for dim in shape:
                count *= dim
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
            weight_map[tensor] = name
            at += count
        raw = json.dumps(header, separators=(",", ":")).encode()
        raw += b" " * (-len(raw) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(raw)) + raw)
            file.truncate(8 + len(raw) + at)
        total += at
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2, sort_keys=True) + "\n"
    )
    config = {
        "model_type": "kimi_k25",
        "text_config": {"num_hidden_layers": size.layers, "hidden_size": size.hidden, "vocab_size": size.vocab},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return len(everything), total
