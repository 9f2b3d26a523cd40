"""Trains one EAGLE-3 drafter on what the target wrote: one layer, plain wiring, three rollout steps fed the true tokens.

Row t of the states belongs to token t and is paired with the embedding of token t+1; it proposes token t+2. Step s feeds row t with
token t+1+s and the state that step s-1 left there (before the final norm), rotates at position t+s and attends to step 0's keys up to
row t and to its own row's later keys.

Shapes: B batch, T tokens of one row, H hidden size, N query heads, M key heads, D head size, C concatenated recipe (3H), R loss rows,
V target vocabulary, W draft vocabulary.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from tools.demo_pair import settings
from tools.demo_pair.settings import RECIPES, SCALES, SEEDS, Scale
from tools.demo_pair.target import be_deterministic, learning_rate, load, optimizer, optimizer_step

MATRIX_DECAY: Final = 0.02
SPREAD: Final = 0.02


class RMSNorm(nn.Module):
    """Root mean square norm, computed in float32 and returned in the dtype of its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (F.rms_norm(x.float(), (x.shape[-1],), None, settings.RMS_EPS) * self.weight).to(x.dtype)


def rotate(x_BNTD: torch.Tensor, positions_T: torch.Tensor) -> torch.Tensor:
    """Rotary embedding with the default frequencies, halves laid out as in Llama."""
    exponents = torch.arange(0, settings.HEAD_DIM, 2, dtype=torch.float32) / settings.HEAD_DIM
    angles_TD = (positions_T[:, None].float() * settings.ROPE_THETA ** -exponents[None]).repeat(1, 2)
    left, right = x_BNTD.chunk(2, dim=-1)
    turned_BNTD = torch.cat((-right, left), dim=-1)
    return (x_BNTD * angles_TD.cos() + turned_BNTD * angles_TD.sin()).to(x_BNTD.dtype)


class Attention(nn.Module):
    """Attention over step 0's keys up to the row, and the row's own keys of later steps."""

    def __init__(self) -> None:
        super().__init__()
        query, key = settings.HEADS * settings.HEAD_DIM, settings.KV_HEADS * settings.HEAD_DIM
        self.q_proj = nn.Linear(2 * settings.HIDDEN, query, bias=False)
        self.k_proj = nn.Linear(2 * settings.HIDDEN, key, bias=False)
        self.v_proj = nn.Linear(2 * settings.HIDDEN, key, bias=False)
        self.o_proj = nn.Linear(query, settings.HIDDEN, bias=False)

    def forward(self, x_BTX: torch.Tensor, step: int, cache: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        batch, length, _ = x_BTX.shape
        positions_T = torch.arange(length) + step
        groups = settings.HEADS // settings.KV_HEADS

        def heads(projected: torch.Tensor, count: int) -> torch.Tensor:
            return projected.view(batch, length, count, settings.HEAD_DIM).transpose(1, 2)

        q_BNTD = rotate(heads(self.q_proj(x_BTX), settings.HEADS), positions_T)
        k_BNTD = rotate(heads(self.k_proj(x_BTX), settings.KV_HEADS), positions_T).repeat_interleave(groups, dim=1)
        v_BNTD = heads(self.v_proj(x_BTX), settings.KV_HEADS).repeat_interleave(groups, dim=1)
        cache.append((k_BNTD, v_BNTD))
        first_k, first_v = cache[0]
        future_TT = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = [(q_BNTD @ first_k.transpose(-1, -2)).float().masked_fill(future_TT, -torch.inf)]
        scores += [(q_BNTD * later_k).sum(-1, keepdim=True).float() for later_k, _ in cache[1:]]
        weights = (torch.cat(scores, dim=-1) * settings.HEAD_DIM**-0.5).softmax(-1).to(v_BNTD.dtype)
        out_BNTD = weights[..., :length] @ first_v
        for index, (_, later_v) in enumerate(cache[1:]):
            out_BNTD = out_BNTD + weights[..., length + index, None] * later_v
        projected: torch.Tensor = self.o_proj(out_BNTD.transpose(1, 2).reshape(batch, length, -1))
        return projected


class MLP(nn.Module):
    """Gated SiLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(settings.HIDDEN, settings.INTERMEDIATE, bias=False)
        self.up_proj = nn.Linear(settings.HIDDEN, settings.INTERMEDIATE, bias=False)
        self.down_proj = nn.Linear(settings.INTERMEDIATE, settings.HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class MidLayer(nn.Module):
    """The one decoder layer: its attention reads the normed embedding and the normed state side by side, embedding first."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Attention()
        self.mlp = MLP()
        self.input_layernorm = RMSNorm(settings.HIDDEN)
        self.hidden_norm = RMSNorm(settings.HIDDEN)
        self.post_attention_layernorm = RMSNorm(settings.HIDDEN)

    def forward(
        self, embedded_BTH: torch.Tensor, h_BTH: torch.Tensor, step: int, cache: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        x_BTX = torch.cat((self.input_layernorm(embedded_BTH), self.hidden_norm(h_BTH)), dim=-1)
        h_BTH = h_BTH + self.self_attn(x_BTX, step, cache)
        out: torch.Tensor = h_BTH + self.mlp(self.post_attention_layernorm(h_BTH))
        return out


class Drafter(nn.Module):
    """All that the checkpoint holds; the embedding is the target's and is passed in."""

    d2t: torch.Tensor
    t2d: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3 * settings.HIDDEN, settings.HIDDEN, bias=False)
        self.midlayer = MidLayer()
        self.norm = RMSNorm(settings.HIDDEN)
        self.lm_head = nn.Linear(settings.HIDDEN, settings.DRAFT_VOCAB_SIZE, bias=False)
        self.register_buffer("d2t", torch.zeros(settings.DRAFT_VOCAB_SIZE, dtype=torch.int64))
        self.register_buffer("t2d", torch.zeros(settings.VOCAB_SIZE, dtype=torch.bool))

    def rollout(self, ids_BT: torch.Tensor, states_BTC: torch.Tensor, embedding_VH: torch.Tensor) -> list[torch.Tensor]:
        """The state [B, T, H] that each of TTT_STEPS steps leaves, before the final norm; ids beyond the row's end are 0."""
        h_BTH = self.fc(states_BTC).float()
        cache: list[tuple[torch.Tensor, torch.Tensor]] = []
        left = []
        for step in range(settings.TTT_STEPS):
            h_BTH = self.midlayer(F.embedding(ahead(ids_BT, 1 + step), embedding_VH), h_BTH, step, cache).float()
            left.append(h_BTH)
        return left

    def logits(self, h: torch.Tensor) -> torch.Tensor:
        """Scores over the draft vocabulary."""
        out: torch.Tensor = self.lm_head(self.norm(h))
        return out


def ahead(x_BT: torch.Tensor, rows: int) -> torch.Tensor:
    """Row t holds what row t + `rows` held; the end is filled with zeros."""
    return torch.cat((x_BT[:, rows:], torch.zeros_like(x_BT[:, :rows])), dim=1)


def counted_rows(length: int, step: int) -> torch.Tensor:
    """Rows [T] that count at `step`: the loss mask, last entry zeroed, moved `step` rows ahead as SpecForge moves it."""
    rows_T = torch.arange(length)
    return (rows_T + step >= settings.PROMPT_TOKENS) & (rows_T + step <= length - 2)


def choose_vocabulary(ids_BT: torch.Tensor) -> torch.Tensor:
    """The DRAFT_VOCAB_SIZE most frequent generated tokens, ties to the smaller id, in ascending order."""
    counts_V = torch.bincount(ids_BT[:, settings.PROMPT_TOKENS :].flatten(), minlength=settings.VOCAB_SIZE)
    return counts_V.argsort(descending=True, stable=True)[: settings.DRAFT_VOCAB_SIZE].sort().values


@torch.no_grad()
def warm_start(drafter: Drafter, target: dict[str, torch.Tensor], kept_W: torch.Tensor) -> None:
    """Starts the layer from the target's last one and the head from the target's rows; fc and the embedding half start random."""
    prefix = f"model.layers.{settings.LAYERS - 1}."
    drafter.d2t.copy_(kept_W - torch.arange(settings.DRAFT_VOCAB_SIZE))
    drafter.t2d[kept_W] = True
    drafter.lm_head.weight.copy_(target["model.embed_tokens.weight"][kept_W])
    drafter.norm.weight.copy_(target["model.norm.weight"])
    layer = drafter.midlayer
    layer.post_attention_layernorm.weight.copy_(target[prefix + "post_attention_layernorm.weight"])
    layer.self_attn.o_proj.weight.copy_(target[prefix + "self_attn.o_proj.weight"])
    for name in ("gate_proj", "up_proj", "down_proj"):
        getattr(layer.mlp, name).weight.copy_(target[f"{prefix}mlp.{name}.weight"])
    for name in ("q_proj", "k_proj", "v_proj"):
        weight: torch.Tensor = getattr(layer.self_attn, name).weight
        weight.normal_(0, SPREAD)
        weight[:, settings.HIDDEN :] = target[f"{prefix}self_attn.{name}.weight"]
    drafter.fc.weight.normal_(0, (3 * settings.HIDDEN) ** -0.5)


class TrainingSet:
    """Token ids, and the states a recipe asks for, of the target's own continuations."""

    def __init__(self, path: Path, recipe: tuple[int, ...], embedding_VH: torch.Tensor) -> None:
        tensors = load_file(path)
        self.ids_BT = tensors["input_ids"]
        self.choices_BT = tensors["choices"]
        self._states_BTKH = tensors["states"]
        self._recipe = recipe
        self._embedding_VH = embedding_VH

    def boundary(self, rows: torch.Tensor, boundary: int) -> torch.Tensor:
        """States [B, T, H] of one boundary; the embedding's are a lookup, since this target does not scale it."""
        if boundary == 0:
            return F.embedding(self.ids_BT[rows], self._embedding_VH)
        return self._states_BTKH[rows, :, settings.KEPT_BOUNDARIES.index(boundary)]

    def recipe_states(self, rows: torch.Tensor) -> torch.Tensor:
        """What reaches fc [B, T, C]."""
        return torch.cat([self.boundary(rows, boundary) for boundary in self._recipe], dim=-1)


def save(drafter: Drafter, path: Path) -> None:
    """One safetensors file: weights in bfloat16, the vocabulary map as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = drafter.state_dict()
    converted = {name: t.bfloat16() if t.is_floating_point() else t for name, t in state.items()}
    save_file({name: t.contiguous() for name, t in sorted(converted.items())}, path, metadata={"format": "pt"})


def read_drafter(path: Path) -> Drafter:
    """A saved drafter with its weights widened to float32."""
    drafter = Drafter()
    drafter.load_state_dict({name: t.float() if t.is_floating_point() else t for name, t in load_file(path).items()})
    return drafter.eval()


def train(out: Path, scale: Scale, name: str) -> None:
    """Reads `target/` and `training.safetensors`; writes `drafter-NAME/model.safetensors` and `drafter-NAME.json`."""
    be_deterministic(SEEDS[name])
    shuffle = random.Random(SEEDS[name])
    target = {key: t.detach() for key, t in load(out / "target").state_dict().items()}
    embedding_VH = target["model.embed_tokens.weight"]
    data = TrainingSet(out / "training.safetensors", RECIPES[name], embedding_VH)
    kept_W = choose_vocabulary(data.ids_BT)
    drafter = Drafter()
    warm_start(drafter, target, kept_W)
    position_V = torch.full((settings.VOCAB_SIZE,), -1)
    position_V[kept_W] = torch.arange(settings.DRAFT_VOCAB_SIZE)
    final_norm = RMSNorm(settings.HIDDEN)
    final_norm.load_state_dict({"weight": target["model.norm.weight"].float()})
    head_WH = embedding_VH[kept_W]
    embedding_float_VH = embedding_VH.float()
    length = data.ids_BT.shape[1]
    adam = optimizer(drafter, MATRIX_DECAY)
    order: list[int] = []
    log: list[dict[str, Any]] = []
    for update in range(scale.drafter_steps):
        if len(order) < scale.drafter_batch:
            order = list(range(len(data.ids_BT)))
            shuffle.shuffle(order)
        rows = torch.tensor([order.pop() for _ in range(scale.drafter_batch)])
        ids_BT, choices_BT = data.ids_BT[rows], data.choices_BT[rows]
        with torch.no_grad():
            last_BTH = final_norm(data.boundary(rows, settings.LAYERS).float()).bfloat16()
            wanted_BTW = (last_BTH @ head_WH.T).float().softmax(-1)
        loss = torch.zeros(())
        accuracy = []
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for step, h_BTH in enumerate(drafter.rollout(ids_BT, data.recipe_states(rows), embedding_float_VH)):
                next_BT = ahead(choices_BT, 1 + step)
                counted_BT = counted_rows(length, step)[None].expand_as(next_BT)
                inside_BT = counted_BT & drafter.t2d[next_BT]
                logits_RW = drafter.logits(h_BTH[inside_BT]).float()
                wanted_RW = ahead(wanted_BTW, 1 + step)[inside_BT]
                cross_entropy = -(wanted_RW * logits_RW.log_softmax(-1)).sum(-1).mean()
                loss = loss + settings.STEP_DECAY**step * cross_entropy
                hits = logits_RW.argmax(-1) == position_V[next_BT[inside_BT]]
                accuracy.append(round(hits.sum().item() / counted_BT.sum().item(), 4))
        torch.autograd.backward(loss)
        optimizer_step(drafter, adam, learning_rate(update, scale.drafter_steps, scale.drafter_lr))
        if update % 50 == 0 or update == scale.drafter_steps - 1:
            log.append({"step": update, "loss": round(loss.item(), 4), "accuracy": accuracy})
            (out / f"drafter-{name}.json").write_text(json.dumps({"log": log}), encoding="utf-8")
    save(drafter, out / f"drafter-{name}" / "model.safetensors")
    parameters = sum(p.numel() for p in drafter.parameters())
    (out / f"drafter-{name}.json").write_text(json.dumps({"parameters": parameters, "log": log}), encoding="utf-8")


def main() -> None:
    """Command line of this step alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    parser.add_argument("--name", choices=sorted(RECIPES), required=True)
    arguments = parser.parse_args()
    train(arguments.out, SCALES[arguments.scale], arguments.name)


if __name__ == "__main__":
    main()
