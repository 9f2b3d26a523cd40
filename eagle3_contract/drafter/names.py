"""The names of a drafter's tensors: every dialect of the field mapped to one canonical spelling.

Canonical names are those of the ``layers.N.`` dialect (speculators, ModelOpt, TorchSpec ``--vllm``) without a ``model.`` prefix.
SpecForge, EAGLE, AngelSlim and TorchSpec write ``midlayer.`` for the first layer. SGLang 0.5.23 accepts both, with or without the
prefix (srt/models/llama_eagle3.py:325-378); vLLM 0.32.0 refuses the prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contract.errors import InputRejected
from eagle3_contract.model.target_names import TARGET_EMBEDDING_NAMES as TARGET_EMBEDDING_NAMES
from eagle3_contract.model.target_names import TARGET_HEAD_NAMES as TARGET_HEAD_NAMES

EMBEDDING: Final = "embed_tokens.weight"
HEAD: Final = "lm_head.weight"
D2T: Final = "d2t"
T2D: Final = "t2d"

_LEGACY_FC_NORM: Final = {"aux_norm_low.weight": 0, "aux_norm_mid.weight": 1, "aux_norm_high.weight": 2}
_TOP: Final = frozenset({EMBEDDING, HEAD, D2T, T2D, "fc.weight", "fc.bias", "input_norm.weight", "norm.weight"})
_FC_NORM: Final = re.compile(r"fc_norm\.(0|[1-9][0-9]{0,3})\.weight")
_LAYER: Final = re.compile(r"(?:midlayer|layers\.(0|[1-9][0-9]{0,3}))\.(.+)")
_LAYER_LEAVES: Final = frozenset(
    [f"{norm}.weight" for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm")]
    + [f"self_attn.{norm}.weight" for norm in ("q_norm", "k_norm", "q_a_layernorm", "kv_a_layernorm")]
    + [
        f"self_attn.{proj}.{part}"
        for proj in ("q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
        for part in ("weight", "bias")
    ]
    + [f"mlp.{proj}.{part}" for proj in ("gate_proj", "up_proj", "down_proj") for part in ("weight", "bias")]
)


def canonical_name(name: str) -> str | None:
    """The canonical name of a checkpoint's tensor, or None if no EAGLE-3 drafter has such a tensor."""
    bare = name.removeprefix("model.")
    if bare in _TOP or _FC_NORM.fullmatch(bare):
        return bare
    if bare in _LEGACY_FC_NORM:
        return f"fc_norm.{_LEGACY_FC_NORM[bare]}.weight"
    layer = _LAYER.fullmatch(bare)
    if layer is None or layer[2] not in _LAYER_LEAVES:
        return None
    return f"layers.{layer[1] or 0}.{layer[2]}"


@dataclass(frozen=True, slots=True)
class NameTable:
    """``stored``: canonical name to the name in the file. ``strange``: names of the file that no drafter has, sorted."""

    stored: dict[str, str]
    strange: tuple[str, ...]


def name_table(names: Iterable[str]) -> NameTable:
    """Sort a checkpoint's names into those a drafter knows and the rest.

    Raises:
        InputRejected: ``drafter.two-names-one-tensor`` if two names of the file mean the same tensor; which one an engine ends up
            with depends on the order of loading.
    """
    stored: dict[str, str] = {}
    strange: list[str] = []
    for name in sorted(names):
        canonical = canonical_name(name)
        if canonical is None:
            strange.append(name)
        elif canonical in stored:
            raise InputRejected(
                f"the tensors {stored[canonical]!r} and {name!r} both stand for {canonical!r}",
                rule="drafter.two-names-one-tensor",
                fix="Remove one of the two from the checkpoint; which of them an engine uses depends on its loading order.",
            )
        else:
            stored[canonical] = name
    return NameTable(stored, tuple(strange))
