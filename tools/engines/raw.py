"""The raw record of one run: what the probes saw, as tensors and plain values, saved by torch whenever something was added.

Runs in an engine's own environment. Nothing here is read from the drafter's config: values come from live modules.
"""

import contextlib
import json
import os

import torch

UNWRITTEN = 1 / 64
"""Floats are filled with this while a drafter is built, so that memory which nobody wrote later can be told."""


class Record:
    """Collects facts; ``save`` writes them to the path given, replacing the last version."""

    def __init__(self, path):
        self.path, self.data = path, {"events": []}

    def put(self, **facts):
        self.data.update({k: _plain(v) for k, v in facts.items()})
        self.save()

    def event(self, kind, **facts):
        self.data["events"].append({"kind": kind} | {k: _plain(v) for k, v in facts.items()})
        self.save()

    def seen(self, kind):
        return any(e["kind"] == kind for e in self.data["events"])

    def save(self):
        if self.path:
            torch.save(self.data, self.path + ".part")
            os.replace(self.path + ".part", self.path)


def _plain(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else json.loads(json.dumps(value, default=str))


@contextlib.contextmanager
def marked_memory():
    """While open, new float memory from ``torch.empty`` holds ``UNWRITTEN``."""
    original = torch.empty

    def filled(*args, **kwargs):
        made = original(*args, **kwargs)
        return made.fill_(UNWRITTEN) if made.is_floating_point() and made.device.type == "cpu" else made

    torch.empty = filled
    try:
        yield
    finally:
        torch.empty = original


def parameters(model):
    """Every parameter by its name, fused ones taken apart: q/k/v, gate/up, and the two down projections of latent attention."""
    modules = dict(model.named_modules())  # a module under two names is listed once: a tied head is the embedding
    found = {}
    for owner, module in modules.items():
        part, _, module_name = owner.rpartition(".")
        pieces = _pieces(module, modules.get(part), module_name)
        for leaf, value in module.named_parameters(recurse=False):
            if pieces is None:
                found[f"{owner}.{leaf}" if owner else leaf] = value
                continue
            at = 0
            for piece, rows in pieces:
                found[f"{part}.{piece}.{leaf}"] = value[at : at + rows]
                at += rows
    return found


def _pieces(module, parent, name):
    if name == "qkv_proj":
        kv = module.total_num_kv_heads * module.head_size
        return [("q_proj", module.total_num_heads * module.head_size), ("k_proj", kv), ("v_proj", kv)]
    if name == "gate_up_proj":
        return list(zip(("gate_proj", "up_proj"), module.output_sizes, strict=True))
    if name in ("fused_qkv_a_proj_with_mqa", "fused_qkv_a_proj"):
        rows = [parent.q_lora_rank, parent.kv_lora_rank + parent.qk_rope_head_dim]
        return list(zip(("q_a_proj", "kv_a_proj_with_mqa"), rows, strict=True))
    return None


def describe(model):
    """Rope, norm epsilons and attention windows as the live modules hold them."""
    modules = list(model.modules())
    ropes = [m for m in modules if hasattr(m, "cos_sin_cache")]
    rope = None
    if ropes:
        table = ropes[0].cos_sin_cache
        rope = {
            "class": type(ropes[0]).__name__,
            "base": ropes[0].base,
            "rotary_dim": ropes[0].rotary_dim,
            "max_position": ropes[0].max_position_embeddings,
            "neox": ropes[0].is_neox_style,
            "table_rows": len(table),
            "table": table[:64].float(),
        }
    eps = sorted({float(m.variance_epsilon) for m in modules if hasattr(m, "variance_epsilon")})
    return {"rope": rope, "rms_norm_eps": eps}
