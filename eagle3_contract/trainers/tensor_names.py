"""Canonical names (see ``eagle3_contract.model.names``) of the tensors whose presence tells something."""

from __future__ import annotations

from typing import Final

EMBEDDING: Final = "embed_tokens.weight"
HEAD: Final = "lm_head.weight"
FC: Final = "fc.weight"
FC_BIAS: Final = "fc.bias"
FINAL_NORM: Final = "norm.weight"
INPUT_NORM: Final = "input_norm.weight"
D2T: Final = "d2t"
T2D: Final = "t2d"


def fc_norm(state: int) -> str:
    """The norm of state ``state`` (from 0) before fc."""
    return f"fc_norm.{state}.weight"


def in_layer(layer: int, name: str) -> str:
    """A tensor of decoder layer ``layer`` (from 0)."""
    return f"layers.{layer}.{name}"
