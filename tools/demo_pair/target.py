"""Trains the target: a LlamaForCausalLM of 12 thin layers on the packed training documents, saved sharded in bfloat16.

Shapes: B batch, T tokens of one row, V vocabulary.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from tools.demo_pair import settings
from tools.demo_pair.settings import SCALES, SEEDS, Scale

WARMUP_STEPS: Final = 40
LAST_RATE: Final = 0.03
MATRIX_DECAY: Final = 0.1
LARGEST_SHARD: Final = "2MB"


def be_deterministic(seed: int) -> None:
    """One thread, deterministic kernels, seeded generators: the same bytes on the same machine."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine down to LAST_RATE of the peak."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return peak * min(1.0, (step + 1) / min(WARMUP_STEPS, steps)) * (LAST_RATE + (1 - LAST_RATE) * cosine)


def optimizer(module: torch.nn.Module, matrix_decay: float) -> torch.optim.AdamW:
    """AdamW that decays matrices and leaves norms alone."""
    parameters = list(module.parameters())
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": matrix_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=(0.9, 0.95),
        fused=True,
    )


def optimizer_step(module: torch.nn.Module, adam: torch.optim.AdamW, rate: float) -> None:
    """Clips the gradient to norm 1, steps at `rate` and clears the gradient."""
    for group in adam.param_groups:
        group["lr"] = rate
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    adam.step()
    adam.zero_grad(set_to_none=True)


def config() -> LlamaConfig:
    """The target's architecture."""
    values: dict[str, Any] = {
        "vocab_size": settings.VOCAB_SIZE,
        "hidden_size": settings.HIDDEN,
        "intermediate_size": settings.INTERMEDIATE,
        "num_hidden_layers": settings.LAYERS,
        "num_attention_heads": settings.HEADS,
        "num_key_value_heads": settings.KV_HEADS,
        "head_dim": settings.HEAD_DIM,
        "max_position_embeddings": settings.MAX_POSITIONS,
        "rms_norm_eps": settings.RMS_EPS,
        "initializer_range": settings.INITIAL_SPREAD,
        "rope_parameters": {"rope_type": "default", "rope_theta": settings.ROPE_THETA},
        "tie_word_embeddings": True,
        "bos_token_id": settings.BOS_ID,
        "eos_token_id": settings.EOS_ID,
    }
    return LlamaConfig(**values)


def load(path: Path) -> LlamaForCausalLM:
    """The saved target in bfloat16, ready for inference."""
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    model.train(False)
    return model


def _loss(model: LlamaForCausalLM, ids_BT: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    return F.cross_entropy(logits_BTV[:, :-1].float().reshape(-1, settings.VOCAB_SIZE), ids_BT[:, 1:].reshape(-1))


def train(out: Path, scale: Scale) -> None:
    """Reads `corpus.json`, writes `target/` and `target.json` (losses in nats per token)."""
    be_deterministic(SEEDS["target"])
    shuffle = random.Random(SEEDS["target"])
    corpus = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    stream_T = torch.tensor([token for document in corpus["training"] for token in document])
    held_out_T = torch.tensor([token for document in corpus["held_out"] for token in document])
    model = LlamaForCausalLM(config())
    model.set_attn_implementation("eager")  # a fifth faster than sdpa at these shapes, and plain matrix products
    with torch.no_grad():  # keeps the stream's growth with depth moderate, as in GPT-2
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_((2 * settings.LAYERS) ** -0.5)
            layer.mlp.down_proj.weight.mul_((2 * settings.LAYERS) ** -0.5)
    adam = optimizer(model, MATRIX_DECAY)
    length, batch = scale.target_length, scale.target_batch
    order: list[int] = []
    log: list[tuple[int, float]] = []
    running = 0.0
    for step in range(scale.target_steps):
        if len(order) < batch:
            offset = shuffle.randrange(length)
            order = list(range(offset, len(stream_T) - length, length))
            shuffle.shuffle(order)
        ids_BT = torch.stack([stream_T[start : start + length] for start in (order.pop() for _ in range(batch))])
        loss = _loss(model, ids_BT)
        torch.autograd.backward(loss)
        optimizer_step(model, adam, learning_rate(step, scale.target_steps, scale.target_lr))
        running = loss.item() if step == 0 else 0.95 * running + 0.05 * loss.item()
        if step % 50 == 0 or step == scale.target_steps - 1:
            log.append((step, round(running, 4)))
            (out / "target.json").write_text(json.dumps({"training_loss": log}), encoding="utf-8")
    with torch.no_grad():
        rows = min(40, len(held_out_T) // length)
        held_out_loss = _loss(model, held_out_T[: rows * length].view(rows, length)).item()
    model.bfloat16().save_pretrained(out / "target", max_shard_size=LARGEST_SHARD)
    parameters = sum(p.numel() for p in model.parameters())
    record = {"parameters": parameters, "training_loss": log, "held_out_loss": round(held_out_loss, 4)}
    (out / "target.json").write_text(json.dumps(record), encoding="utf-8")


def main() -> None:
    """Command line of this step alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    arguments = parser.parse_args()
    train(arguments.out, SCALES[arguments.scale])


if __name__ == "__main__":
    main()
