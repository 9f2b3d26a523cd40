"""The attention of transformers inside an EAGLE-3 layer: DeepSeek-V3's latent one, Qwen3's with head norms, Llama's with every rope.

Row t at step s is the last of a short sequence: the step-0 rows up to t, then the row's own later steps. The modules see that sequence
and nothing else of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import DeepseekV3Config, LlamaConfig, Qwen3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RMSNorm, DeepseekV3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding

from eagle3_contract.drafter.rope import RotaryEmbedding
from eagle3_contract.model.wiring import Rope, Wiring

from .build import MLA, Inputs, inputs_for, small, tensors_for
from .compare import largest_miss, run

STEPS = 3
YARN = {"factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 1.0, "mscale_all_dim": 0.7}


def _load(module: nn.Module, tensors: dict[str, Tensor], prefix: str) -> nn.Module:
    state = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    module.load_state_dict(state, strict=True)
    return module.eval()


def _norm(tensors: dict[str, Tensor], name: str, eps: float) -> nn.Module:
    module = LlamaRMSNorm(tensors[name].numel(), eps=eps)
    module.weight.data = tensors[name]
    return module


def _widened(attention: nn.Module, names: tuple[str, ...], wiring: Wiring, output: int) -> nn.Module:
    """The projections take the concatenation, the output gives the drafter's width."""
    for name in names:
        old = getattr(attention, name)
        setattr(attention, name, nn.Linear(2 * wiring.hidden_size, old.out_features, bias=old.bias is not None))
    attention.o_proj = nn.Linear(output, wiring.hidden_size, bias=attention.o_proj.bias is not None)
    return attention


def transformers_eagle3(
    w: Wiring, tensors: dict[str, Tensor], attention: nn.Module, rotary: nn.Module, inputs: Inputs, steps: int
) -> list[Tensor]:
    """Plain EAGLE-3 of one layer, built from transformers' own modules."""
    rows = inputs.ids.shape[0] - 1
    config = LlamaConfig(hidden_size=w.hidden_size, num_attention_heads=1, intermediate_size=w.intermediate_size, hidden_act=w.hidden_act)
    mlp = _load(LlamaMLP(config), tensors, "layers.0.mlp.")
    norms = {
        name: _norm(tensors, f"layers.0.{name}.weight", w.rms_norm_eps)
        for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    }
    final_norm = _norm(tensors, "norm.weight", w.rms_norm_eps)
    entries: list[dict[int, Tensor]] = []
    turns: list[tuple[Tensor, Tensor]] = []
    logits_steps = []
    hidden = inputs.states[:rows] @ tensors["fc.weight"].T
    for step in range(steps):
        live = rows - step
        hidden = hidden[:live]
        embedded = tensors["embed_tokens.weight"][inputs.ids[1 + step : 1 + step + live]]
        entry = torch.cat([norms["input_layernorm"](embedded), norms["hidden_norm"](hidden)], dim=-1)
        entries.append(dict(enumerate(entry)))
        cos, sin = rotary(entry, torch.arange(step, step + live)[None])
        turns.append((cos[0], sin[0]))
        mixed = []
        for t in range(live):
            slots = [(0, u) for u in range(t + 1)] + [(j, t) for j in range(1, step + 1)]
            sequence = torch.stack([entries[j][u] for j, u in slots])[None]
            turn = tuple(torch.stack([turns[j][part][u] for j, u in slots])[None] for part in (0, 1))
            mixed.append(attention(hidden_states=sequence, position_embeddings=turn, attention_mask=None)[0][0, -1])
        stream = hidden + torch.stack(mixed)
        hidden = stream + mlp(norms["post_attention_layernorm"](stream))
        logits = torch.full((rows, w.draft_vocab_size), float("nan"))
        logits[:live] = final_norm(hidden) @ tensors["lm_head.weight"].T
        logits_steps.append(logits)
    return logits_steps


def _llama(w: Wiring, rope: dict[str, Any], length: int) -> tuple[nn.Module, nn.Module]:
    config = LlamaConfig(
        hidden_size=w.hidden_size,
        num_attention_heads=w.heads,
        num_key_value_heads=w.kv_heads,
        head_dim=w.head_dim,
        attention_bias=w.qkv_bias,
        max_position_embeddings=length,
        rope_parameters=rope,
    )
    config._attn_implementation = "eager"
    attention = _widened(LlamaAttention(config, 0), ("q_proj", "k_proj", "v_proj"), w, w.heads * w.head_dim)
    return attention, LlamaRotaryEmbedding(config)


def _qwen3(w: Wiring, rope: dict[str, Any], length: int) -> tuple[nn.Module, nn.Module]:
    config = Qwen3Config(
        hidden_size=w.hidden_size,
        num_attention_heads=w.heads,
        num_key_value_heads=w.kv_heads,
        head_dim=w.head_dim,
        rms_norm_eps=w.rms_norm_eps,
        max_position_embeddings=length,
        rope_parameters=rope,
    )
    config._attn_implementation = "eager"
    attention = _widened(Qwen3Attention(config, 0), ("q_proj", "k_proj", "v_proj"), w, w.heads * w.head_dim)
    return attention, Qwen3RotaryEmbedding(config)


def _deepseek(w: Wiring, rope: dict[str, Any], length: int) -> tuple[nn.Module, nn.Module]:
    m = w.mla
    assert m is not None
    config = DeepseekV3Config(
        hidden_size=w.hidden_size,
        num_attention_heads=w.heads,
        num_key_value_heads=w.heads,
        q_lora_rank=m.q_lora_rank,
        kv_lora_rank=m.kv_lora_rank,
        qk_nope_head_dim=m.qk_nope_head_dim,
        qk_rope_head_dim=m.qk_rope_head_dim,
        v_head_dim=m.v_head_dim,
        attention_bias=w.qkv_bias,
        rope_interleave=w.rope.interleaved,
        max_position_embeddings=length,
        rope_parameters=rope,
    )
    config._attn_implementation = "eager"
    first = ("kv_a_proj_with_mqa", "q_proj" if m.q_lora_rank is None else "q_a_proj")
    return _widened(DeepseekV3Attention(config, 0), first, w, w.heads * m.v_head_dim), DeepseekV3RotaryEmbedding(config)


Build = Callable[[Wiring, dict[str, Any], int], tuple[nn.Module, nn.Module]]
LATENT = MLA.mla
assert LATENT is not None
# The latent norms of transformers' DeepseekV3Attention take the class's default epsilon, whatever the config says.
AS_TRAINED = replace(LATENT, norm_eps=1e-6)
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CASES: dict[str, tuple[Wiring, Build]] = {
    "llama": (small(), _llama),
    "llama, bias": (small(qkv_bias=True, o_bias=True), _llama),
    "llama, linear": (small(rope=Rope(type="linear", scaling={"factor": 4.0})), _llama),
    "llama, dynamic below its length": (small(rope=Rope(type="dynamic", scaling={"factor": 4.0}, table_length=64)), _llama),
    "llama, dynamic past its length": (small(rope=Rope(type="dynamic", scaling={"factor": 4.0}, table_length=6)), _llama),
    "llama, llama3": (small(rope=Rope(type="llama3", theta=500.0, scaling=LLAMA3)), _llama),
    "llama, yarn": (small(rope=Rope(type="yarn", scaling=YARN)), _llama),
    "qwen3, q/k norms": (small(qk_norm=True), _qwen3),
    "deepseek": (replace(MLA, mla=AS_TRAINED), _deepseek),
    "deepseek, halves": (replace(MLA, mla=AS_TRAINED, rope=Rope()), _deepseek),
    "deepseek, plain query": (replace(MLA, mla=replace(AS_TRAINED, q_lora_rank=None)), _deepseek),
    "deepseek, bias": (replace(MLA, mla=AS_TRAINED, qkv_bias=True, o_bias=True), _deepseek),
    "deepseek, yarn": (replace(MLA, mla=AS_TRAINED, rope=Rope(type="yarn", scaling=YARN, interleaved=True)), _deepseek),
}


def _expected(wiring: Wiring, build: Build, inputs: Inputs) -> list[Tensor]:
    tensors = tensors_for(wiring)
    rope = {"rope_type": wiring.rope.type, "rope_theta": wiring.rope.theta, **wiring.rope.scaling}
    attention, rotary = build(wiring, rope, wiring.rope.table_length or 64)
    with torch.no_grad():
        return transformers_eagle3(wiring, tensors, _load(attention, tensors, "layers.0.self_attn."), rotary, inputs, STEPS)


@pytest.mark.parametrize("name", CASES)
def test_layer_agrees_with_transformers(name: str) -> None:
    wiring, build = CASES[name]
    inputs = inputs_for(wiring)
    got = run(wiring, inputs, steps=STEPS).logits_steps
    assert largest_miss(got, _expected(wiring, build, inputs)) <= 1.0


@pytest.mark.parametrize("name", ["deepseek", "deepseek, yarn"])
def test_layer_parts_from_transformers_when_one_mla_switch_is_flipped(name: str) -> None:
    wiring, build = CASES[name]
    inputs = inputs_for(wiring)
    expected = _expected(wiring, build, inputs)
    tensors = tensors_for(wiring)
    for flipped in (
        replace(wiring, rope=replace(wiring.rope, interleaved=False)),
        replace(wiring, attention_scale=wiring.head_dim**-0.5),
        replace(wiring, mla=replace(AS_TRAINED, norm_eps=1e-2)),
    ):
        assert largest_miss(run(flipped, inputs, tensors=tensors, steps=STEPS).logits_steps, expected) > 100.0


@pytest.mark.parametrize("length", [1, 64, 65, 300])
@pytest.mark.parametrize("dim", [8, 64, 128])
@pytest.mark.parametrize(
    "rope",
    [
        Rope(theta=123456.0),
        Rope(type="linear", scaling={"factor": 2.5}),
        Rope(type="dynamic", scaling={"factor": 3.0}, table_length=64),
        Rope(type="llama3", theta=5e5, scaling={**LLAMA3, "original_max_position_embeddings": 8192}),
        Rope(type="yarn", scaling={"factor": 32.0, "original_max_position_embeddings": 2048}),
        Rope(type="yarn", theta=1e6, scaling={"factor": 4.0, "original_max_position_embeddings": 512, "truncate": False}),
        Rope(type="yarn", theta=5e4, scaling=YARN),
        Rope(type="yarn", scaling={"factor": 4.0, "original_max_position_embeddings": 512, "attention_factor": 1.25}),
    ],
    ids=lambda r: f"{r.type}-{r.theta:g}-{len(r.scaling)}",
)
def test_cosines_and_sines_are_those_of_transformers(rope: Rope, dim: int, length: int) -> None:
    config = LlamaConfig(
        hidden_size=dim,
        num_attention_heads=1,
        head_dim=dim,
        max_position_embeddings=rope.table_length or 8192,
        rope_parameters={"rope_type": rope.type, "rope_theta": rope.theta, **rope.scaling},
    )
    positions = torch.arange(length)
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), positions[None])
    got_cos, got_sin = RotaryEmbedding(rope, dim, torch.device("cpu")).at(positions)
    # An angle of 300 radians in float32 is good to 3e-5.
    assert torch.allclose(got_cos, cos[0, :, : dim // 2], atol=5e-5, rtol=0)
    assert torch.allclose(got_sin, sin[0, :, : dim // 2], atol=5e-5, rtol=0)


def test_latent_norms_of_transformers_take_their_own_epsilon() -> None:
    """The reason for ``Mla.norm_eps``."""
    attention, _ = _deepseek(MLA, {"rope_type": "default", "rope_theta": 10000.0}, 64)
    assert isinstance(attention.kv_a_layernorm, DeepseekV3RMSNorm)
    assert attention.kv_a_layernorm.variance_epsilon == attention.q_a_layernorm.variance_epsilon == 1e-6
