"""The replay finds the switches of a forward that it did not choose, and says so where the parameters at hand settle nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tools.engines import replay

H, HEAD, HEADS, KV, INNER, T, EPS = 16, 8, 2, 1, 24, 7, 1e-5
PLAIN = {
    "norm_before_residual": False,
    "input_norm_before_fc": False,
    "fc_norm_per_chunk": False,
    "fc": True,
    "fc_bias": False,
    "qkv_bias": False,
    "o_bias": False,
    "mlp_bias": False,
    "attention_window": None,
}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(hash((shape, seed)) % 2**31)) * 0.4


def params(states: int = 3, *more: str, layers: int = 1) -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (H, states * H), "norm.weight": (H,)}
    for n in range(layers):
        wide = 2 * H if n == 0 else H
        attention = {"q": (HEADS * HEAD, wide), "k": (KV * HEAD, wide), "v": (KV * HEAD, wide), "o": (H, HEADS * HEAD)}
        shapes |= {f"layers.{n}.self_attn.{k}_proj.weight": s for k, s in attention.items()}
        shapes |= {f"layers.{n}.mlp.{k}_proj.weight": (INNER, H) for k in ("gate", "up")} | {f"layers.{n}.mlp.down_proj.weight": (H, INNER)}
        shapes |= {f"layers.{n}.{k}.weight": (H,) for k in ("input_layernorm", "hidden_norm", "post_attention_layernorm")}
    sizes = {"input_norm.weight": (states * H,), "fc.bias": (H,), "layers.0.self_attn.o_proj.bias": (H,)}
    sizes |= {f"fc_norm.{k}.weight": (H,) for k in range(states)}
    shapes |= {n: sizes[n] for n in more}
    return {n: draw(*s, seed=i) for i, (n, s) in enumerate(shapes.items())}


ANGLES = torch.arange(T)[:, None] * 10000.0 ** -(torch.arange(0, HEAD, 2) / HEAD)
TABLE = torch.cat([ANGLES.cos(), ANGLES.sin()], -1)


def settled(held: dict[str, torch.Tensor], switch: dict[str, Any], states: int = 3, windows: tuple[int, ...] = ()) -> dict[str, Any] | None:
    fed, embeds = draw(T, states * H, seed=50) * 3, draw(T, H, seed=51)
    normed, _ = replay.forward(held, fed, embeds, TABLE, EPS, HEAD, switch)
    return replay.settle(held, fed, embeds, TABLE, EPS, HEAD, windows, normed)


@pytest.mark.parametrize(
    ("more", "on", "windows"),
    [
        ((), {}, ()),
        ((), {"norm_before_residual": True}, ()),
        (("input_norm.weight",), {"input_norm_before_fc": True}, ()),
        (("input_norm.weight",), {}, ()),
        (("fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"), {"fc_norm_per_chunk": True}, ()),
        (("fc.bias", "layers.0.self_attn.o_proj.bias"), {"fc_bias": True, "o_bias": False}, ()),
        ((), {"attention_window": 3}, (3, 4)),
        ((), {"attention_window": 4}, (3, 4)),
    ],
)
def test_the_switches_are_found(more: tuple[str, ...], on: dict[str, Any], windows: tuple[int, ...]) -> None:
    found = settled(params(3, *more), PLAIN | on, windows=windows)
    assert found is not None
    assert found["in_effect"] == PLAIN | on


def test_the_later_layers_norm_is_found() -> None:
    for norm in ("hidden_norm", "input_layernorm"):
        found = settled(params(layers=2), PLAIN | {"norm_before_attention_of_layer_1": norm})
        assert found is not None
        assert found["in_effect"]["norm_before_attention_of_layer_1"] == norm


def test_a_skipped_fc_is_found() -> None:
    found = settled(params(1), PLAIN | {"fc": False}, states=1)
    assert found is not None
    assert found["in_effect"]["fc"] is False


def test_what_makes_no_difference_is_not_settled() -> None:
    held = params(3, "fc.bias") | {"fc.bias": torch.zeros(H)}
    found = settled(held, PLAIN)
    assert found is not None
    assert found["in_effect"]["fc_bias"] == replay.UNSETTLED


def test_an_output_that_no_combination_gives_is_refused() -> None:
    held, fed, embeds = params(), draw(T, 3 * H, seed=50), draw(T, H, seed=51)
    assert replay.settle(held, fed, embeds, TABLE, EPS, HEAD, (), draw(T, H, seed=99)) is None
