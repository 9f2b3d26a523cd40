"""The drafter of the simulated engine: weights, cache and forward, with nothing of the package. Legend as in ``simulated``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from verify.engine_drafter.simulated_engine import DATA, EPS, FOLDER, HEAD_DIM, HEADS, THETA, Engine


class Weights:
    """The demo drafter's tensors in the engine's dtype, spoilt as the fault wants it."""

    def __init__(self, engine: Engine, folder: Path = FOLDER) -> None:
        held = {name.replace("midlayer.", "layers.0."): t for name, t in load_file(folder / "model.safetensors").items()}
        self.t = {n: (t.to(engine.dtype) if t.is_floating_point() else t) for n, t in held.items()}
        shards = {n: t for f in sorted((DATA / "target").glob("*.safetensors")) for n, t in load_file(f).items()}
        self.t["fc.weight"] = self.t["fc.weight"][:, : 128 * engine.states]
        self.embedding = shards["model.embed_tokens.weight"].to(engine.dtype)
        d2t, ids = self.t["d2t"], torch.arange(len(self.t["d2t"]))
        self.map = ids + d2t
        generator = torch.Generator().manual_seed(5)
        if engine.has("other-embedding"):
            self.embedding = torch.randn(self.embedding.shape, generator=generator).to(engine.dtype) * self.embedding.std()
        if engine.has("zero-embedding"):
            self.embedding = torch.zeros_like(self.embedding)
        if engine.has("hidden-norm-of-ones"):
            self.t["layers.0.hidden_norm.weight"] = torch.ones_like(self.t["layers.0.hidden_norm.weight"])
        if engine.has("absolute-map"):
            self.map = d2t
        if engine.has("permuted-map"):
            self.map = self.map[torch.randperm(len(ids), generator=generator)]
        if engine.has("permuted-head"):
            self.t["lm_head.weight"] = self.t["lm_head.weight"][torch.randperm(len(ids), generator=generator)]
        if engine.has("other-head"):
            self.t["lm_head.weight"] = self.embedding[: len(ids)]
        if engine.has("scaled-head"):
            self.t["lm_head.weight"] = self.t["lm_head.weight"] * 1.01

    def __getitem__(self, name: str) -> Tensor:
        return self.t[name]


def rms(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * weight


Out = tuple[Tensor, Tensor, Tensor]
"""final_normed, state_out, logits: all rows, or one."""


@dataclass
class Cache:
    """Keys and values in physical places, and which place holds which slot of the sequence."""

    key: Tensor
    value: Tensor
    table: list[int] = field(default_factory=list)
    used: int = 0

    @classmethod
    def empty(cls, dtype: torch.dtype) -> Cache:
        return cls(torch.zeros(4096, HEAD_DIM, dtype=dtype), torch.zeros(4096, HEAD_DIM, dtype=dtype))

    def place(self, slot: int) -> int:
        """The physical place of a slot; new slots take the next free one."""
        while len(self.table) <= slot:
            self.table.append(self.used)
            self.used += 1
        return self.table[slot]

    def fresh(self) -> int:
        self.used += 1
        return self.used - 1


@dataclass
class Fed:
    """What one forward of the drafter is fed, and where its rows stand."""

    ids: list[int]
    positions: list[int]
    hidden: Tensor
    places: list[int]
    sees: list[list[int]]
    writes: list[bool]


class Drafter:
    """One layer: embedding first, residual of the un-normed hidden stream, pre-norm state handed on."""

    def __init__(self, engine: Engine, weights: Weights) -> None:
        self.e, self.w = engine, weights

    def fuse(self, states_nC: Tensor) -> Tensor:
        return F.linear(states_nC, self.w["fc.weight"])

    def rotate(self, x_nhd: Tensor, positions: Sequence[int]) -> Tensor:
        theta = 500000.0 if self.e.has("rope-theta") else THETA
        half = HEAD_DIM // 2
        angle = torch.tensor(positions, dtype=torch.float32)[:, None] * theta ** (-torch.arange(half) / half)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        a, b = x_nhd.float().split(half, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x_nhd.dtype)

    def run(self, fed: Fed, cache: Cache) -> Out:
        """(final_normed, state_out, logits), all rows."""
        w, n = self.w, len(fed.ids)
        prefix = "layers.0."
        residual = fed.hidden
        embedded = rms(w.embedding[torch.tensor(fed.ids)], w[f"{prefix}input_layernorm.weight"])
        normed = rms(residual, w[f"{prefix}hidden_norm.weight"])
        if self.e.has("norm-before-residual"):
            residual = normed
        x = torch.cat([normed, embedded] if self.e.has("hidden-first") else [embedded, normed], -1)
        q = self.rotate(F.linear(x, w[f"{prefix}self_attn.q_proj.weight"]).view(n, HEADS, HEAD_DIM), fed.positions)
        k = self.rotate(F.linear(x, w[f"{prefix}self_attn.k_proj.weight"]).view(n, 1, HEAD_DIM), fed.positions)[:, 0]
        v = F.linear(x, w[f"{prefix}self_attn.v_proj.weight"])
        for i in range(n):
            if fed.writes[i]:
                cache.key[fed.places[i]], cache.value[fed.places[i]] = k[i], v[i]
        seen = torch.zeros(n, cache.used, dtype=torch.bool)
        for i in range(n):
            seen[i, fed.sees[i]] = True
        key, value = cache.key[: cache.used].float(), cache.value[: cache.used].float()
        scores = torch.einsum("nhd,kd->hnk", q.float(), key) * HEAD_DIM**-0.5
        mixed = torch.einsum("hnk,kd->nhd", scores.masked_fill(~seen, float("-inf")).softmax(-1), value).to(q.dtype).flatten(1)
        residual = residual + F.linear(mixed, w[f"{prefix}self_attn.o_proj.weight"])
        x = rms(residual, w[f"{prefix}post_attention_layernorm.weight"])
        x = F.silu(F.linear(x, w[f"{prefix}mlp.gate_proj.weight"])) * F.linear(x, w[f"{prefix}mlp.up_proj.weight"])
        state = residual + F.linear(x, w[f"{prefix}mlp.down_proj.weight"])
        final = state if self.e.has("no-final-norm") else rms(state, w["norm.weight"])
        return final, state, F.linear(final, w["lm_head.weight"]).float()
