"""An EAGLE-3 forward written for reading, not for speed: one row, one head, one key at a time, in float64.

It shares nothing with ``eagle3_contract.drafter``. Attention keeps a list of (step, row) slots; latent attention is computed in its
folded form (as engines do), not in the expanded one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu, silu
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from eagle3_contract.model.wiring import Owner, Rollout, Wiring

Slot = tuple[int, int]
ACTIVATIONS = {"silu": silu, "gelu": gelu, "relu": relu}


def rope_frequencies(w: Wiring, dim: int, length: int) -> tuple[Tensor, float]:
    """Inverse frequencies and the factor on cosine and sine, from transformers' own functions."""
    kind = "default" if w.rope.type == "mrope" else w.rope.type
    if kind == "default":
        return 1.0 / w.rope.theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim), 1.0
    scaling = dict(w.rope.scaling)
    original = int(scaling.get("original_max_position_embeddings", w.rope.table_length or 2048))
    if scaling.pop("static", False):
        length = int(scaling["factor"] * original)
    config = LlamaConfig(
        head_dim=dim,
        hidden_size=dim,
        num_attention_heads=1,
        max_position_embeddings=original,
        rope_parameters={"rope_type": kind, "rope_theta": w.rope.theta, **scaling},
    )
    inverse, factor = ROPE_INIT_FUNCTIONS[kind](config, device=torch.device("cpu"), seq_len=length)
    return inverse.double(), factor


class Oracle:
    """One document of n tokens. ``logits[step, row]`` [DV] for every row that is alive."""

    def __init__(self, w: Wiring, tensors: dict[str, Tensor], target: dict[str, Tensor]) -> None:
        self.w = w
        self.t = {k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}
        self.target = {k: v.double() for k, v in target.items()}
        self.logits: dict[Slot, Tensor] = {}
        self.fed: dict[Slot, int] = {}
        self.frequencies: dict[tuple[int, int], tuple[Tensor, float]] = {}

    def norm(self, x: Tensor, name: str, eps: float | None = None) -> Tensor:
        mean_square = (x * x).sum() / x.numel()
        return x / torch.sqrt(mean_square + (self.w.rms_norm_eps if eps is None else eps)) * self.t[name]

    def linear(self, x: Tensor, name: str) -> Tensor:
        y = self.t[f"{name}.weight"] @ x
        return y + self.t[f"{name}.bias"] if f"{name}.bias" in self.t else y

    def run(self, ids: Tensor, states: Tensor, steps: int, rollout: Rollout = Rollout.TEACHER, positions: Tensor | None = None) -> Oracle:
        w, n = self.w, ids.shape[0]
        own = rollout is Rollout.OWN_ARGMAX
        keys: list[dict[Slot, tuple[Tensor, ...]]] = [{} for _ in range(w.layers)]
        handed: dict[Slot, Tensor] = {}
        for step in range(steps):
            live = [t for t in range(n - 1) if t + w.token_shift + (0 if own else step) < n]
            place = {t: (w.positions_start + t if positions is None else int(positions[t])) for t in live}
            if w.step_positions.value == "advance":
                place = {t: p + step for t, p in place.items()}
            length = max(place.values(), default=0) + 1
            for t in live:
                if step == 0:
                    hidden, token = self.fuse(states[t].double()), int(ids[t + w.token_shift])
                else:
                    hidden = handed[step - 1, t]
                    token = self.propose(self.logits[step - 1, t]) if own else int(ids[t + w.token_shift + step])
                self.fed[step, t] = token
                handed[step, t] = self.row(step, t, hidden, token, place[t], length, keys)
        return self

    def fuse(self, x: Tensor) -> Tensor:
        w = self.w
        if not w.fc_applied:
            return x
        for norm in w.norms_before_fc:
            if norm.value == "input_norm":
                x = self.norm(x, "input_norm.weight")
            else:
                g = w.target_hidden_size
                x = torch.cat([self.norm(x[i * g : (i + 1) * g], f"fc_norm.{i}.weight") for i in range(w.states)])
        return self.linear(x, "fc")

    def propose(self, logits: Tensor) -> int:
        i = int(logits.argmax())
        if self.w.vocab_map.value == "identity":
            return i
        return int(self.t["d2t"][i]) + (i if self.w.vocab_map.value == "offset" else 0)

    def row(
        self,
        step: int,
        t: int,
        hidden: Tensor,
        token: int,
        position: int,
        length: int,
        keys: list[dict[Slot, tuple[Tensor, ...]]],
    ) -> Tensor:
        w = self.w
        table = self.t["embed_tokens.weight"] if w.embedding is Owner.OWN else self.target["model.embed_tokens.weight"]
        x = hidden
        for layer in range(w.layers):
            p = f"layers.{layer}."
            if layer == 0:
                embedded = self.norm(table[token], f"{p}input_layernorm.weight")
                h = self.norm(x, f"{p}input_layernorm.weight") if w.double_norm else x
                h = self.norm(h, f"{p}hidden_norm.weight") if w.hidden_norm else h
                entry = torch.cat([embedded, h] if w.concat_order.value == "embedding_first" else [h, embedded])
                residual = h if w.norm_before_residual else x
            else:
                name = w.later_layer_norm.value
                entry = x if name == "none" else self.norm(x, f"{p}{name}.weight")
                residual = x
            attend = self.latent if w.attention.value == "mla" else self.grouped
            x = residual + attend(p + "self_attn.", entry, step, t, position, length, keys[layer])
            y = self.norm(x, f"{p}post_attention_layernorm.weight")
            gate = ACTIVATIONS[w.hidden_act](self.linear(y, f"{p}mlp.gate_proj"))
            x = x + self.linear(gate * self.linear(y, f"{p}mlp.up_proj"), f"{p}mlp.down_proj")
        final = self.norm(x, "norm.weight") if w.final_norm else x
        head = {
            "own": lambda: self.t["lm_head.weight"],
            "target": lambda: self.target["lm_head.weight"],
            "tied_to_own": lambda: self.t["embed_tokens.weight"],
            "tied_to_target": lambda: self.target["model.embed_tokens.weight"],
        }[w.lm_head.value]()[: w.draft_vocab_size]
        self.logits[step, t] = head @ final * w.logit_scale
        return final if w.feedback.value == "post_norm" else x

    def visible(self, step: int, t: int) -> list[Slot]:
        w = self.w
        query = t + step if w.window_follows_steps else t
        slots = [(0, u) for u in range(t + 1) if w.window is None or query - u < w.window]
        for j in range(1, step + 1):
            if w.window is None or not w.window_follows_steps or step - j < w.window:
                slots.append((j, t))
        return slots

    def rotate(self, x: Tensor, position: int, length: int) -> Tensor:
        dim = x.numel()
        if (dim, length) not in self.frequencies:
            self.frequencies[dim, length] = rope_frequencies(self.w, dim, length)
        inverse, factor = self.frequencies[dim, length]
        out = x.clone()
        for i in range(dim // 2):
            a, b = (2 * i, 2 * i + 1) if self.w.rope.interleaved else (i, i + dim // 2)
            angle = position * float(inverse[i])
            out[a] = (x[a] * math.cos(angle) - x[b] * math.sin(angle)) * factor
            out[b] = (x[b] * math.cos(angle) + x[a] * math.sin(angle)) * factor
        return out

    def head_rotated(self, x: Tensor, position: int, length: int) -> Tensor:
        turned = self.w.rope.rotary_dim or self.w.head_dim
        return torch.cat([self.rotate(x[:turned], position, length), x[turned:]])

    def grouped(self, p: str, x: Tensor, step: int, t: int, position: int, length: int, kept: dict[Slot, tuple[Tensor, ...]]) -> Tensor:
        w, d = self.w, self.w.head_dim
        q, k, v = (self.linear(x, f"{p}{n}_proj") for n in "qkv")
        qs = [q[i * d : (i + 1) * d] for i in range(w.heads)]
        ks = [k[i * d : (i + 1) * d] for i in range(w.kv_heads)]
        if w.qk_norm:
            qs = [self.norm(one, f"{p}q_norm.weight") for one in qs]
            ks = [self.norm(one, f"{p}k_norm.weight") for one in ks]
        ks = [self.head_rotated(one, position, length) for one in ks]
        kept[step, t] = (torch.stack(ks), v.view(w.kv_heads, d))
        out = []
        for i, one in enumerate(qs):
            turned = self.head_rotated(one, position, length)
            of = i // (w.heads // w.kv_heads)
            slots = self.visible(step, t)
            scale = d**-0.5 if w.attention_scale is None else w.attention_scale
            weights = torch.stack([turned @ kept[s][0][of] * scale for s in slots]).softmax(0)
            out.append(sum(a * kept[s][1][of] for a, s in zip(weights, slots, strict=True)))
        return self.linear(torch.cat(out), f"{p}o_proj")

    def latent(self, p: str, x: Tensor, step: int, t: int, position: int, length: int, kept: dict[Slot, tuple[Tensor, ...]]) -> Tensor:
        w, m = self.w, self.w.mla
        assert m is not None
        eps = w.rms_norm_eps if m.norm_eps is None else m.norm_eps
        if m.q_lora_rank is None:
            q = self.linear(x, f"{p}q_proj")
        else:
            q = self.linear(self.norm(self.linear(x, f"{p}q_a_proj"), f"{p}q_a_layernorm.weight", eps), f"{p}q_b_proj")
        down = self.linear(x, f"{p}kv_a_proj_with_mqa")
        latent = self.norm(down[: m.kv_lora_rank], f"{p}kv_a_layernorm.weight", eps)
        kept[step, t] = (latent, self.rotate(down[m.kv_lora_rank :], position, length))
        up = self.t[f"{p}kv_b_proj.weight"].view(w.heads, m.qk_nope_head_dim + m.v_head_dim, m.kv_lora_rank)
        scale = w.attention_scale
        if scale is None:
            scale = (m.qk_nope_head_dim + m.qk_rope_head_dim) ** -0.5
            if w.rope.type == "yarn" and w.rope.scaling.get("mscale_all_dim"):
                scale *= (0.1 * float(w.rope.scaling["mscale_all_dim"]) * math.log(float(w.rope.scaling["factor"])) + 1) ** 2
        out = []
        for i, one in enumerate(q.view(w.heads, -1)):
            folded = up[i, : m.qk_nope_head_dim].T @ one[: m.qk_nope_head_dim]
            turned = self.rotate(one[m.qk_nope_head_dim :], position, length)
            slots = self.visible(step, t)
            weights = torch.stack([(folded @ kept[s][0] + turned @ kept[s][1]) * scale for s in slots]).softmax(0)
            mixed = sum(a * kept[s][0] for a, s in zip(weights, slots, strict=True))
            out.append(up[i, m.qk_nope_head_dim :] @ mixed)
        return self.linear(torch.cat(out), f"{p}o_proj")
