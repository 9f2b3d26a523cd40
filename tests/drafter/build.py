"""Small drafters with random weights for any wiring, and inputs to run them on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import Attention, Mla, Owner, Rope, Wiring

SMALL = Wiring(
    hidden_size=16,
    target_hidden_size=16,
    states=3,
    layers=1,
    heads=4,
    kv_heads=2,
    head_dim=8,
    intermediate_size=24,
    draft_vocab_size=24,
    target_vocab_size=40,
    rms_norm_eps=1e-5,
    hidden_act="silu",
    rope=Rope(),
    embedding=Owner.OWN,
)
MLA = replace(
    SMALL,
    attention=Attention.MLA,
    mla=Mla(q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5),
    rope=Rope(interleaved=True),
)


def small(**changes: Any) -> Wiring:
    return replace(SMALL, **changes)


def generator(seed: int) -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(seed)


def random_tensor(name: str, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=rng, device="cpu")
    if "norm" in name:
        return 1.0 + 0.4 * noise
    return noise * (0.5 if name.endswith("bias") else 1.6 * shape[-1] ** -0.5)


def vocab_map(wiring: Wiring, rng: torch.Generator) -> Tensor:
    """A d2t for the wiring's map, unsorted."""
    ids = torch.randperm(wiring.target_vocab_size, generator=rng)[: wiring.draft_vocab_size]
    return ids - torch.arange(wiring.draft_vocab_size) if wiring.vocab_map is VocabMap.OFFSET else ids


def tensors_for(wiring: Wiring, seed: int = 0) -> dict[str, Tensor]:
    rng = generator(seed)
    made = {name: random_tensor(name, shape, rng) for name, shape in tensor_shapes(wiring).items()}
    if wiring.vocab_map is not VocabMap.IDENTITY:
        made["d2t"] = vocab_map(wiring, rng)
    return made


def target_tensors(wiring: Wiring, seed: int = 100) -> dict[str, Tensor]:
    rng = generator(seed)
    shape = (wiring.target_vocab_size + 8, wiring.hidden_size)
    return {name: random_tensor(name, shape, rng) for name in ("model.embed_tokens.weight", "lm_head.weight")}


class Inputs(NamedTuple):
    ids: Tensor
    states: Tensor


def inputs_for(wiring: Wiring, tokens: int = 11, seed: int = 7) -> Inputs:
    rng = generator(seed)
    ids = torch.randint(0, wiring.target_vocab_size, (tokens,), generator=rng)
    return Inputs(ids, torch.randn((tokens, wiring.states * wiring.target_hidden_size), generator=rng))


def drafter_for(wiring: Wiring, tensors: dict[str, Tensor] | None = None, **options: Any) -> Drafter:
    """A drafter of the wiring; ``tensors`` may come from another wiring, what is lacking is invented."""
    held = tensors_for(wiring) if tensors is None else tensors_for(wiring, seed=50) | tensors
    return Drafter(wiring, MemorySource(held), target_source=MemorySource(target_tensors(wiring), "target"), **options)
