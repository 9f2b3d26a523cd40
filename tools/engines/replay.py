"""The drafter's prompt pass once more in plain torch with the engine's own parameters: which switches explain its output?

Every combination of the switches that the parameters at hand allow is tried; a switch is settled where all combinations that match agree.
Legend: T tokens, H drafter width, N heads, D head width, S states.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch

MATCH, APART = 1e-4, 20.0
UNSETTLED = "indistinguishable"


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def _rotate(x_TND: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    half = table.shape[-1] // 2
    cos, sin = table[:, None, :half], table[:, None, half:]
    a, b, rest = x_TND[..., :half], x_TND[..., half : 2 * half], x_TND[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def _linear(x: torch.Tensor, params: Mapping[str, torch.Tensor], name: str, *, bias: bool) -> torch.Tensor:
    made = x @ params[f"{name}.weight"].T
    return made + params[f"{name}.bias"] if bias else made


def forward(
    params: Mapping[str, torch.Tensor],
    fed: torch.Tensor,
    embeds_TH: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    head: int,
    switch: Mapping[str, Any],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The prompt pass: (normed [T, H], residual stream before the final norm [T, H])."""
    h = fed
    if switch["fc"]:
        if switch["input_norm_before_fc"]:
            h = _norm(h, params["input_norm.weight"], eps)
        if switch["fc_norm_per_chunk"]:
            count = sum(n.startswith("fc_norm.") for n in params)
            h = torch.cat([_norm(c, params[f"fc_norm.{k}.weight"], eps) for k, c in enumerate(h.chunk(count, -1))], -1)
        h = _linear(h, params, "fc", bias=switch["fc_bias"])
    residual = h
    for n in range(len({name.split(".")[1] for name in params if name.startswith("layers.")})):
        layer = f"layers.{n}"
        if n == 0:
            normed = _norm(h, params[f"{layer}.hidden_norm.weight"], eps)
            residual = normed if switch["norm_before_residual"] else h
            x = torch.cat([_norm(embeds_TH, params[f"{layer}.input_layernorm.weight"], eps), normed], -1)
        else:
            x = _norm(residual, params[f"{layer}.{switch['norm_before_attention_of_layer_1']}.weight"], eps)
        residual = residual + _attention(params, f"{layer}.self_attn", x, table, eps, head, switch)
        x = _norm(residual, params[f"{layer}.post_attention_layernorm.weight"], eps)
        gate, up = (_linear(x, params, f"{layer}.mlp.{p}_proj", bias=switch["mlp_bias"]) for p in ("gate", "up"))
        residual = residual + _linear(torch.nn.functional.silu(gate) * up, params, f"{layer}.mlp.down_proj", bias=switch["mlp_bias"])
    return _norm(residual, params["norm.weight"], eps), residual


def _attention(
    params: Mapping[str, torch.Tensor], name: str, x: torch.Tensor, table: torch.Tensor, eps: float, head: int, switch: Mapping[str, Any]
) -> torch.Tensor:
    q, k, v = (_linear(x, params, f"{name}.{p}_proj", bias=switch["qkv_bias"]).unflatten(-1, (-1, head)) for p in "qkv")
    if f"{name}.q_norm.weight" in params:
        q, k = _norm(q, params[f"{name}.q_norm.weight"], eps), _norm(k, params[f"{name}.k_norm.weight"], eps)
    q, k = _rotate(q, table), _rotate(k, table)
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    sees = torch.ones(len(x), len(x), dtype=torch.bool).tril()
    if switch["attention_window"]:
        sees &= ~torch.ones_like(sees).tril(-switch["attention_window"])
    weights = torch.softmax((torch.einsum("tnd,snd->nts", q, k) * head**-0.5).masked_fill(~sees, float("-inf")), -1)
    return _linear(torch.einsum("nts,snd->tnd", weights, v).flatten(1), params, f"{name}.o_proj", bias=switch["o_bias"])


def choices(params: Mapping[str, torch.Tensor], fed: int, width: int, windows: tuple[int, ...]) -> dict[str, tuple[Any, ...]]:
    """The values each switch can have with these parameters and widths."""

    def there(*names: str) -> tuple[Any, ...]:
        return (False, True) if all(any(n.endswith(name) for n in params) for name in names) else (False,)

    fits = "fc.weight" in params and params["fc.weight"].shape[1] == fed
    return {
        "norm_before_residual": (False, True),
        "input_norm_before_fc": there("input_norm.weight") if fits else (False,),
        "fc_norm_per_chunk": there("fc_norm.0.weight") if fits else (False,),
        "fc": tuple([True] * fits + [False] * (fed == width)),
        "fc_bias": there("fc.bias") if fits else (False,),
        "qkv_bias": there("q_proj.bias"),
        "o_bias": there("o_proj.bias"),
        "mlp_bias": there("down_proj.bias"),
        "attention_window": (None, *windows),
        **(
            {"norm_before_attention_of_layer_1": ("hidden_norm", "input_layernorm")}
            if any(n.startswith("layers.1.") for n in params)
            else {}
        ),
    }


def settle(
    params: Mapping[str, torch.Tensor],
    fed: torch.Tensor,
    embeds: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    head: int,
    windows: tuple[int, ...],
    normed: torch.Tensor,
) -> dict[str, Any] | None:
    """Which switches are in effect, with how well the best combination fits and the best one that does not; None if nothing fits."""
    options = choices(params, fed.shape[-1], embeds.shape[-1], windows)
    tried: list[tuple[float, dict[str, Any]]] = []
    for values in itertools.product(*options.values()):
        switch = dict(zip(options, values, strict=True))
        made, _ = forward(params, fed, embeds, table, eps, head, switch)
        tried.append((float((made - normed).abs().max()), switch))
    best = min(error for error, _ in tried)
    scale = float(normed.abs().max())
    bound = MATCH * max(1.0, scale)
    matching = [s for error, s in tried if error <= bound]
    others = [error for error, _ in tried if error > bound]
    if not matching or (others and min(others) < APART * max(best, 1e-9)):
        return None
    return {
        "in_effect": {k: matching[0][k] if all(s[k] == matching[0][k] for s in matching) else UNSETTLED for k in options},
        "hypotheses_tried": len(tried),
        "hypotheses_matching": len(matching),
        "matches": True,
        "next_best_not_matching": round(min(others), 3) if others else None,
    }
