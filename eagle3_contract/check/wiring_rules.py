"""The rules about tensors that follow from the wiring, and which tensor falls under which."""

from __future__ import annotations

import re
from typing import Final

from contract.findings import Rule, Severity
from eagle3_contract.drafter.names import EMBEDDING, HEAD

_E = Severity.ERROR
_UNNOTICED: Final = "No engine notices it at load (SGLang 0.5.23, vLLM 0.32.0)."


def _rule(name: str, title: str, dimension: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"wiring.{name}", title=title, severity=_E, dimension=dimension, why=why, remedy=remedy)


FC: Final = _rule(
    "fc-width",
    "fc takes as many states of the target's width as the recipe has",
    "recipe",
    "fc.weight is [hidden, count x target hidden size]. All hidden layers instead of three gave 112x151552 against 12288x4096 "
    "(EAGLE#294); "
    "vLLM counts states from num_aux_hidden_states, nested ids or 3, never from the top-level list.",
    "Correct the recipe, or the target's width, in the contract; or export the right checkpoint.",
)
ATTENTION: Final = _rule(
    "attention-shapes",
    "q, k, v and o have the shapes of the heads, and the first layer takes 2 x hidden size",
    "shapes",
    "The first layer sees the embedding beside the hidden state, so its projections are twice as wide as a plain decoder's "
    "(DeepSpec#44); "
    "rows are heads x head_dim, which is not hidden_size for many drafters (EAGLE#223, #315, #342).",
    "Correct heads, kv_heads and head_dim in the contract, or export the right checkpoint.",
)
MLP: Final = _rule(
    "mlp-shapes",
    "The MLP has the shapes of intermediate_size",
    "shapes",
    f"A wrong width is cut or padded. {_UNNOTICED}",
    "Correct intermediate_size.",
)
NORMS: Final = _rule(
    "norms",
    "A norm is stored exactly when the wiring applies it",
    "wiring",
    "A missing norm runs with ones, an unused one is dropped silently: input_norm without norm_before_fc (vLLM, SGLang), fc_norm without "
    "fc_norm (SGLang), q_norm and k_norm (SGLang). Norm wiring is silent in 11 of 12 reports.",
    "Correct the wiring in the contract, mark the tensor `used: not_used` if training really left it unused, or export the right "
    "checkpoint.",
)
BIASES: Final = _rule(
    "biases",
    "A bias is stored exactly when the wiring has it",
    "wiring",
    "vLLM 0.32.0 drops an unknown .bias silently and runs a missing one from uninitialised memory; SGLang has no q, k, v biases at all.",
    "Correct the biases in the contract, or export the right checkpoint.",
)
LAYERS: Final = _rule(
    "layer-count",
    "The checkpoint has weights for exactly the layers that the wiring has",
    "shapes",
    "A config with more layers than weights runs the rest on uninitialised memory (yuhuili/EAGLE3-Vicuna1.3-13B: 40 against 1); extra "
    "layers are cut.",
    "Correct wiring.layers, or export the right checkpoint.",
)
TABLES: Final = _rule(
    "embedding-and-head",
    "An own embedding and an own head are stored with the sizes of the vocabularies",
    "vocab",
    "Without an own lm_head vLLM uses the first rows of the target's and SGLang uninitialised memory (observed on both); an embedding of "
    "another width than the drafter's is kept separate without weights.",
    "Correct the owners and vocabulary sizes in the contract, or export the right checkpoint.",
)
LISTED: Final = _rule(
    "tensors-listed",
    "The contract lists every tensor that its own wiring needs, with the shape that follows from it",
    "contract",
    "A contract whose tensors and wiring contradict each other cannot be kept by any checkpoint.",
    "Add the tensor to `tensors`, or correct the wiring.",
)
RULES: Final = (FC, ATTENTION, MLP, NORMS, BIASES, LAYERS, TABLES, LISTED)

_NORM: Final = re.compile(r"input_norm|fc_norm\.|norm\.weight|_norm\.weight|layernorm\.weight")


def rule_for(name: str) -> Rule:
    """The rule that a canonical tensor name falls under."""
    if name in (EMBEDDING, HEAD):
        return TABLES
    if name.endswith(".bias"):
        return BIASES
    if _NORM.search(name):
        return NORMS
    return FC if name.startswith("fc.") else MLP if ".mlp." in name else ATTENTION
