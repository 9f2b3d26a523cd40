"""Tensor names of a drafter: the dialects in the field, and the one canonical spelling used inside this code.

Two dialects exist: ``midlayer.*`` (EAGLE, SpecForge, AngelSlim, TorchSpec) and ``layers.0.*`` (speculators, ModelOpt, vLLM), each with or
without a leading ``model.``; SGLang 0.5.23 takes all four (srt/models/llama_eagle3.py:325-378). EAGLE-3.1 heads written for SGLang call
the norms per state ``aux_norm_low`` / ``mid`` / ``high`` (llama_eagle3.py:337-343). Canonical is ``layers.{i}.*`` without ``model.``.
"""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "model."
_MIDLAYER: Final = "midlayer."
_LEGACY_NORMS: Final = {f"aux_norm_{part}.weight": f"fc_norm.{i}.weight" for i, part in enumerate(("low", "mid", "high"))}

EMBEDDING: Final = "embed_tokens.weight"
HEAD: Final = "lm_head.weight"
FC: Final = "fc.weight"
FC_BIAS: Final = "fc.bias"
FINAL_NORM: Final = "norm.weight"
INPUT_NORM: Final = "input_norm.weight"
D2T: Final = "d2t"
T2D: Final = "t2d"


def fc_norm(state: int) -> str:
    """The canonical name of the norm of state ``state`` (from 0) before fc."""
    return f"fc_norm.{state}.weight"


def in_layer(layer: int, name: str) -> str:
    """The canonical name of a tensor of decoder layer ``layer`` (from 0)."""
    return f"layers.{layer}.{name}"


def canonical(name: str) -> str:
    """The canonical spelling of a stored tensor's name; a name of no known dialect comes back unchanged."""
    bare = name.removeprefix(_PREFIX)
    if bare.startswith(_MIDLAYER):
        return in_layer(0, bare.removeprefix(_MIDLAYER))
    return _LEGACY_NORMS.get(bare, bare)
