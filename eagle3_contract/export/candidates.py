"""The ways to write a contract down that are tried: where the ids go and in which numbering, the architecture, the tensors' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from contract.findings import Json
from eagle3_contract.check.context import CheckContext
from eagle3_contract.export.config import IDS
from eagle3_contract.model.names import canonical
from eagle3_contract.model.states import FINAL_NORM, Recipe

GROUPED: Final = (
    ("LlamaForCausalLMEagle3",),
    ("Eagle3LlamaForCausalLM",),
    ("Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3"),
    ("Eagle3Qwen3ForCausalLM",),
    ("LlamaForCausalLM",),
)
LATENT: Final = (("Eagle3DeepseekV2ForCausalLM",), ("Eagle3DeepseekV3ForCausalLM", "Eagle3DeepseekV2ForCausalLM"))
SHIFTS: Final = (None, 0, -1)
"""Ids are left out, are the boundaries, or are one less (the layer whose output it is)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to write it down.

    Attributes:
        config: the whole config.json.
        names: stored name to the name in the export, for those that change.
    """

    config: Mapping[str, Json]
    names: Mapping[str, str]


def candidates(ctx: CheckContext, base: Mapping[str, Json], recipe: Recipe, stored: Sequence[str]) -> Iterator[Candidate]:
    """Every way, the nearest to the drafter's own first."""
    heads = [{}] if ctx.value("wiring", "lm_head") != "target" else [{}, {"draft_vocab_size": None}]
    for names, architecture, head, (nested, top) in product(
        _names(stored), _architectures(ctx), heads, sorted(product(SHIFTS, SHIFTS), key=_plainest)
    ):
        ids = _ids(recipe, nested, top, base, ctx.value("target", "layers"))
        if ids is not None:
            yield Candidate(config={"architectures": list(architecture), **base, **head, **ids}, names=names)
    for names, top in product(_names(stored), (0, -1)):
        ids = _ids(recipe, None, top, base, ctx.value("target", "layers"))
        if ids is not None and ctx.value("wiring", "attention") == "gqa":
            yield Candidate(config=speculators(ctx, {**base, **ids}), names=names)


OUTER: Final = (
    *(IDS, "num_aux_hidden_states", "draft_vocab_size", "target_hidden_size", "tie_word_embeddings"),
    *("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output"),
)
"""Keys that stand outside ``transformer_layer_config`` in the speculators layout (vLLM transformers_utils/configs/speculators/algos.py)."""


def speculators(ctx: CheckContext, flat: Mapping[str, Json]) -> dict[str, Json]:
    """The same statements in the speculators layout, which some engines read alone (mlx-vlm); tried after every flat one."""
    tokens, target = ctx.value("serving", "steps"), ctx.value("target", "id")
    methods = [{"proposal_type": "greedy", "speculative_tokens": tokens}] if tokens is not None else []
    inner = {k: v for k, v in flat.items() if k not in (*OUTER, "eagle_config", "torch_dtype", "architectures")}
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_config": {"algorithm": "eagle3", "proposal_methods": methods, "verifier": {"name_or_path": target}},
        **{k: flat[k] for k in OUTER if k in flat},
        **({"dtype": flat["torch_dtype"]} if "torch_dtype" in flat else {}),
        "transformer_layer_config": {**inner, "tie_word_embeddings": flat.get("tie_word_embeddings", False)},
    }


def _plainest(shifts: tuple[int | None, int | None]) -> int:
    """One list of ids before two, two before none."""
    given = sum(s is not None for s in shifts)
    return (2, 0, 1)[given]


def _architectures(ctx: CheckContext) -> list[tuple[str, ...]]:
    listed = (ctx.drafter.config or {}).get("architectures")
    own = tuple(n for n in listed if isinstance(n, str)) if isinstance(listed, list) else ()
    usual = LATENT if ctx.value("wiring", "attention") == "mla" else GROUPED
    plain = own and "speculators_model_type" not in (ctx.drafter.config or {})
    return list(dict.fromkeys([*([own] if plain else []), *usual]))


def _names(stored: Sequence[str]) -> list[dict[str, str]]:
    """As they are, canonical, and with the first layer as ``midlayer``; a dialect that names two tensors alike is left out."""
    dialects = [
        {n: n for n in stored},
        {n: canonical(n) for n in stored},
        {n: canonical(n).replace("layers.0.", "midlayer.", 1) for n in stored},
    ]
    kept = [d for d in dialects if len(set(d.values())) == len(d)]
    changes = [{old: new for old, new in d.items() if old != new} for d in kept]
    return [c for i, c in enumerate(changes) if c not in changes[:i]]


def _ids(recipe: Recipe, nested: int | None, top: int | None, base: Mapping[str, Json], layers: Any) -> dict[str, Any] | None:
    """The keys that name the states; None where this way has no numbers for them.

    The normed last state has no number: beside others boundary N (``layers``) comes nearest to it.
    """
    inner: dict[str, Any] = {"norm_before_fc": True} if base.get("norm_before_fc") else {}
    if recipe == (FINAL_NORM,):
        return {"eagle_config": {"use_aux_hidden_state": False, **inner}} if nested is None and top is None else None
    numbers = [layers if isinstance(s, str) else s for s in recipe]
    if layers is None and FINAL_NORM in recipe:
        return None
    inner = {"use_aux_hidden_state": True, **inner}
    if nested is not None:
        inner[IDS] = [n + nested for n in numbers]
    outer = {} if top is None else {IDS: [n + top for n in numbers]}
    return {"num_aux_hidden_states": len(recipe), **outer, "eagle_config": inner}
