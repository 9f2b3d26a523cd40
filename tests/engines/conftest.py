"""Tiny targets of several families, randomly initialised, saved once as a user would have them on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Recording

LAYERS = 4
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma2", "deepseek_v3", "gpt_neox")


def build(family: str, **more: Any) -> Any:
    """A model with random weights whose layers all do something visible."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = SIZES | more
    if family == "deepseek_v3":
        latent = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
        # As many experts as layers: two lists of one length, one inside of the other.
        experts = {"n_routed_experts": LAYERS, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16}
        sizes |= latent | experts | {"first_k_dense_replace": 1, "num_key_value_heads": 4}
        del sizes["head_dim"]
    config = AutoConfig.for_model(family, **sizes)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    make = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():
        if weight.dim() == 1 and "norm" in name:
            weight.data = 0.5 + torch.rand(weight.shape, generator=make)
        elif weight.dim() == 2:
            weight.data = torch.randn(weight.shape, generator=make) * 0.2
    return model


@pytest.fixture(scope="session")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders by family."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    places = {}
    for family in FAMILIES:
        places[family] = tmp_path_factory.mktemp("targets") / family
        build(family).save_pretrained(places[family])
    logging.enable_progress_bar()
    return places


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """An empty spool."""
    return Recording(tmp_path / "spool")
