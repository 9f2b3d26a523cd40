"""An engine's test as it might be: ``python example.py``, in an environment with torch and safetensors only.

The engine is a few lines of torch that know the plain wiring and two of its switches. It says which cases it runs, and is held to those.
"""

import sys
from pathlib import Path

import torch
from loader import Case, cases
from torch import Tensor
from torch.nn.functional import linear, silu, softmax

KNOWN = {"states", "target_hidden_size", "norm_before_residual", "feedback", "kv_heads", "embedding"}


class Engine:
    def __init__(self, case: Case) -> None:
        self.w, self.t = case.wiring, {name.replace("midlayer.", ""): tensor for name, tensor in case.weights.items()}
        self.t.setdefault("embed_tokens.weight", case.target["model.embed_tokens.weight"])

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.w["rms_norm_eps"]) * self.t[name + ".weight"]

    def rotate(self, x_LND: Tensor, positions_L: Tensor) -> Tensor:
        half = x_LND.shape[-1] // 2
        angle = positions_L[:, None] * self.w["rope"]["theta"] ** (-torch.arange(half) / half)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        a, b = x_LND[..., :half], x_LND[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def steps(self, ids_T: Tensor, states_TC: Tensor, count: int) -> list[Tensor]:
        """Teacher forced: row t of step s is fed token t+1+s, sees the rows up to t of step 0, and itself in later steps."""
        w, t = self.w, self.t
        rows, heads, groups = len(ids_T) - 1, w["heads"], w["heads"] // w["kv_heads"]
        state, keys, values, logits = linear(states_TC[:-1], t["fc.weight"]), [], [], []
        for step in range(count):
            alive = rows - step
            embedded = self.norm(t["embed_tokens.weight"][ids_T[1 + step :]], "input_layernorm")
            normed = self.norm(state[:alive], "hidden_norm")
            residual = normed if w["norm_before_residual"] else state[:alive]
            entry = torch.cat([embedded, normed], dim=-1)
            q, k, v = (linear(entry, t[f"self_attn.{n}_proj.weight"]).unflatten(-1, (-1, w["head_dim"])) for n in "qkv")
            place = torch.arange(alive) + step
            keys.append(self.rotate(k, place).repeat_interleave(groups, dim=1))
            values.append(v.repeat_interleave(groups, dim=1))
            q = self.rotate(q, place) * w["head_dim"] ** -0.5
            scores = torch.einsum("lnd,mnd->lnm", q, keys[0]).masked_fill(
                torch.arange(rows) > torch.arange(alive)[:, None, None], -torch.inf
            )
            own = [torch.einsum("lnd,lnd->ln", q, k[:alive])[..., None] for k in keys[1:]]
            weights = softmax(torch.cat([scores, *own], dim=-1), dim=-1)
            mixed = torch.einsum("lnm,mnd->lnd", weights[..., :rows], values[0])
            for j, value in enumerate(values[1:]):
                mixed = mixed + weights[..., rows + j, None] * value[:alive]
            x = residual + linear(mixed.reshape(alive, heads * w["head_dim"]), t["self_attn.o_proj.weight"])
            y = self.norm(x, "post_attention_layernorm")
            gate = silu(linear(y, t["mlp.gate_proj.weight"])) * linear(y, t["mlp.up_proj.weight"])
            x = x + linear(gate, t["mlp.down_proj.weight"])
            final = self.norm(x, "norm")
            state = final if w["feedback"] == "post_norm" else x
            out = linear(final, t["lm_head.weight"])
            logits.append(torch.cat([out, out.new_full((step, out.shape[1]), torch.nan)]))
        return logits


def main() -> int:
    wrong = 0
    for case in cases(Path(__file__).parent):
        if not set(case.differs) <= KNOWN:
            print(f"{case.name}: not run, for {', '.join(sorted(set(case.differs) - KNOWN))}")
            continue
        got = Engine(case).steps(case.vectors["input_ids"], case.vectors["hidden_states"], 3)
        misses = {f"step {s}": rows for s, logits in enumerate(got) if (rows := case.misses(f"logits_step{s}", logits))}
        wrong += bool(misses)
        print(f"{case.name}: {misses or 'ok'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
