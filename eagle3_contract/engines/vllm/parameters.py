"""The parameters of a drafter of vLLM by the names of its checkpoint, fused ones taken apart."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor, nn

from eagle3_contract.engines.unfused import unfused

QKV: Final = "qkv_proj"
GATE_UP: Final = "gate_up_proj"
LATENT: Final = ("fused_qkv_a_proj", "fused_qkv_a_proj_with_mqa")


def checkpoint_parameters(drafter: nn.Module) -> dict[str, Tensor]:
    """Every parameter, by ``unfused``.

    Linear layers of the CPU backend are repacked and emptied after loading, so that values are only there while ``load_weights`` has just
    returned (vLLM 0.32.0).
    """
    return unfused(drafter, _parts)


def _parts(module: Any, parent: Any, own: str) -> list[tuple[str, int]]:
    if own == QKV:
        heads, kv = module.num_heads * module.head_size, module.num_kv_heads * module.head_size
        return [("q_proj", heads), ("k_proj", kv), ("v_proj", kv)]
    if own == GATE_UP:
        return [(name, size) for name, size in zip(("gate_proj", "up_proj"), module.output_partition_sizes, strict=True)]
    if own in LATENT:
        return [("q_a_proj", parent.q_lora_rank), ("kv_a_proj_with_mqa", parent.kv_lora_rank + parent.qk_rope_head_dim)]
    return []
