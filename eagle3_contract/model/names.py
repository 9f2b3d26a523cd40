"""The two dialects of tensor names and the one canonical spelling. What names a drafter can have at all: ``drafter/names.py``.

``midlayer.*`` (EAGLE, SpecForge, AngelSlim, TorchSpec) and ``layers.0.*`` (speculators, ModelOpt, vLLM), each with or without a leading
``model.``; SGLang 0.5.23 takes all four (srt/models/llama_eagle3.py:325-378). EAGLE-3.1 heads written for SGLang call the norms per
state ``aux_norm_low`` / ``mid`` / ``high`` (llama_eagle3.py:337-343).
"""

from __future__ import annotations

from typing import Final

_LEGACY_NORMS: Final = {f"aux_norm_{part}.weight": f"fc_norm.{i}.weight" for i, part in enumerate(("low", "mid", "high"))}


def canonical(name: str) -> str:
    """``layers.{i}.*`` without ``model.``; a name of no known dialect keeps its spelling, but for that prefix."""
    bare = name.removeprefix("model.")
    if bare.startswith("midlayer."):
        return f"layers.0.{bare.removeprefix('midlayer.')}"
    return _LEGACY_NORMS.get(bare, bare)
