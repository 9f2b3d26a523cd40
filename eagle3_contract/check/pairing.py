"""Target and drafter beside each other: dtype and quantisation of the target, its KV pages, and special tokens in both vocabularies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from contract.findings import Check, Rule, Severity, Where
from eagle3_contract.check.compare import said
from eagle3_contract.check.context import CheckContext, TargetFacts
from eagle3_contract.check.open_target import text_part


def _rule(name: str, title: str, dimension: str, why: str, remedy: str, severity: Severity = Severity.ERROR) -> Rule:
    return Rule(id=f"target.{name}", title=title, severity=severity, dimension=dimension, why=why, remedy=remedy)


DTYPE: Final = _rule(
    "dtype",
    "The target runs in a dtype that holds the range of its states",
    "dtype",
    "float16 ends at 65504; outliers of the residual stream overflow where they are fused (lmdeploy#4991: 0.06 of 15 drafts accepted with "
    "an AWQ float16 target).",
    "Serve the target in bfloat16, or train the drafter on states of the float16 target.",
)
QUANTIZATION: Final = _rule(
    "quantization",
    "The target is quantised exactly as when its states were recorded",
    "dtype",
    "A quantised target hands over other states than the one that training saw. How much that costs differs: nobody has published a bound.",
    "Serve the target of the contract, or record the states of the quantised one and train on them; measure first (`contract verify`).",
)
ROTATED: Final = _rule(
    "rotated",
    "The target's residual stream is not rotated, or training saw it rotated",
    "dtype",
    "QuaRot and SpinQuant rotate the stream: every state and the embedding are another basis, and the text stays right. "
    "Qwen3-32B-w8a8-quarot with an unrotated head: mean accepted length 1.07 instead of 3.09 (vllm-ascend#5974, #7038).",
    "Serve an unrotated target, or an engine that rotates fc and the embedding back (vllm-ascend since #7038, for three states).",
)
PAGES: Final = _rule(
    "page-layout",
    "The drafter's key-value pages fit among those of the target",
    "shapes",
    "vLLM gives all layers of a target with several kinds of attention pages of one size (v1/core/kv_cache_utils.py:1292-1354): 0.32.0 "
    "pads the smaller page where sizes do not divide, earlier releases stop at load (vllm#38979), a latent page cannot be padded at all.",
    "Train the drafter with key-value heads and a head_dim that make the sizes divide; or serve on an engine with a pool per model.",
    Severity.WARNING,
)
TOKENS: Final = _rule(
    "token-ids",
    "Pad and mask token ids are inside both vocabularies",
    "vocab",
    "A pad or mask token beyond the target's rows is looked up outside the table, or in rows of padding that nobody trained "
    "(Model-Optimizer#1621).",
    "Write the ids of this target's tokenizer into config.json.",
)
RULES: Final = (DTYPE, QUANTIZATION, ROTATED, PAGES, TOKENS)

NONE: Final = "none"
SPECIAL: Final = ("pad_token_id", "mask_token_id")
_ROTATION: Final = re.compile(r"quarot|spin_?quant|rotat(?:ed|ion)_?(?:config|matrix|weights)?$|hadamard", re.IGNORECASE)
_ROTATED_NAME: Final = re.compile(r"quarot|spin_?quant", re.IGNORECASE)
_HYBRID: Final = ("sliding_attention", "linear_attention", "mamba", "chunked_attention")
DEEPEST: Final = 8
"""How deep a config is searched for a rotation."""


def check_pairing(ctx: CheckContext) -> Iterator[Check]:
    """Everything that needs the target's config beside the contract."""
    facts = ctx.target
    if facts is None:
        for rule in RULES:
            yield rule.skipped("no --target was given")
        return
    yield _dtype(ctx, facts)
    yield from _quantization(ctx, facts)
    yield _pages(ctx, facts)
    yield from _tokens(ctx, facts)


def _dtype(ctx: CheckContext, facts: TargetFacts) -> Check:
    text, stated = text_part(facts.config), ctx.stated("target", "dtype")
    value = next((v for m in (text, facts.config) for k in ("dtype", "torch_dtype") if isinstance(v := m.get(k), str)), None)
    where = Where(file=facts.source, key="torch_dtype")
    if value is None:
        return DTYPE.skipped(f"the config of {facts.source} names no dtype")
    if not stated.known:
        return DTYPE.undecided(
            f"the target is {value}; the contract does not say target.dtype: {stated.reason}", required=False, where=where
        )
    if value == "float16" and stated.value != "float16":
        return DTYPE.failed(
            f"the target {facts.source} is float16; its states were recorded in {stated.value}, which reaches further",
            expected=stated.value,
            actual=value,
            where=where,
        )
    how = "" if value == stated.value else ", another rounding of the same range"
    return DTYPE.passed(f"the target is {value}, training saw {stated.value}{how}", expected=stated.value, actual=value)


def _method(config: Mapping[str, Any]) -> str:
    """The target's quantisation as its config names it; ``none`` without one."""
    for holder in (config, text_part(config)):
        section = holder.get("quantization_config") or holder.get("compression_config")
        if isinstance(section, Mapping):
            algorithm = section.get("quant_algo") or section.get("quant_method") or "unnamed"
            return str(algorithm).lower()
    return NONE


def _quantization(ctx: CheckContext, facts: TargetFacts) -> Iterator[Check]:
    stated, found = ctx.stated("target", "quantization"), _method(facts.config)
    where = Where(file=facts.source, key="quantization_config")
    rotation = _rotation(facts.config) or _rotated_name(facts.source)
    if rotation and not (stated.known and _ROTATION.search(str(stated.value))):
        says = f"the target {facts.source} is rotated ({rotation}), the contract's target is quantised by {said(stated.value)}"
        if stated.known:
            yield ROTATED.failed(says, expected=stated.value, actual=rotation, where=where)
        else:
            yield ROTATED.undecided(f"{says}: {stated.reason}", where=where, fix=ROTATED.remedy)
    else:
        yield ROTATED.passed("nothing in the target's config speaks of a rotation that training did not see")
    if not stated.known:
        yield QUANTIZATION.undecided(f"the target is quantised by {found}; the contract does not say: {stated.reason}", required=False)
    elif (found == NONE) != (str(stated.value).lower() == NONE):
        yield QUANTIZATION.failed(
            f"the target {facts.source} is quantised by {found}, its states were recorded with {stated.value}",
            expected=stated.value,
            actual=found,
            where=where,
        )
    else:
        yield QUANTIZATION.passed(
            f"the target is quantised by {found}, as when its states were recorded", expected=stated.value, actual=found
        )


def _rotated_name(source: str) -> str | None:
    """The name of a target's folder that says it (``Qwen3-32B-w8a8-quarot``); folders above it prove nothing."""
    path = Path(source)
    name = path.parent.name if path.suffix == ".json" else path.name
    return name if _ROTATED_NAME.search(name) else None


def _rotation(value: Any, depth: int = 0) -> str | None:
    """The key or text of a config that speaks of a rotated stream, or None."""
    if depth > DEEPEST:
        return None
    if isinstance(value, str):
        return value if _ROTATION.search(value) else None
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if _ROTATION.search(str(key)) and inner not in (None, False, {}, []):
                return str(key)
            if (found := _rotation(inner, depth + 1)) is not None:
                return found
    if isinstance(value, list):
        return next((f for v in value if (f := _rotation(v, depth + 1)) is not None), None)
    return None


def _pages(ctx: CheckContext, facts: TargetFacts) -> Check:
    text = text_part(facts.config)
    kinds = text.get("layer_types")
    hybrid = isinstance(kinds, list) and any(k in _HYBRID for k in kinds)
    theirs = _values_per_token(text.get, ("num_key_value_heads", "num_attention_heads"), "head_dim", text.get("kv_lora_rank"))
    mla = ctx.contract.wiring.mla
    latent = None if mla is None else mla.kv_lora_rank + mla.qk_rope_head_dim
    heads, dim = ctx.value("wiring", "kv_heads"), ctx.value("wiring", "head_dim")
    ours = latent if latent is not None else 2 * heads * dim if heads is not None and dim is not None else None
    if theirs is None or ours is None:
        return PAGES.skipped("the sizes of a key-value page are not all known")
    large, small = max(theirs, ours), min(theirs, ours)
    says = f"a token takes {theirs} values in a layer of the target and {ours} in the drafter's"
    if large % small == 0:
        return PAGES.passed(f"{says}: one divides the other", expected=theirs, actual=ours)
    if not hybrid:
        return PAGES.passed(f"{says}: the target has one kind of attention, whose layers may differ in size", expected=theirs, actual=ours)
    return PAGES.failed(
        f"{says}: neither divides the other, and the target has several kinds of attention; vLLM pads the smaller page from 0.32.0 on and "
        "stops at load before",
        expected=theirs,
        actual=ours,
        where=ctx.place("wiring", "kv_heads"),
    )


def _values_per_token(get: Any, heads: tuple[str, ...], dim: str, rank: Any) -> int | None:
    """Keys and values that one layer holds for one token: two per head and dimension, or the latent and its rotated part."""
    if isinstance(rank, int) and isinstance(get("qk_rope_head_dim"), int):
        return max(int(rank + get("qk_rope_head_dim")), 0) or None
    count = next((v for h in heads if isinstance(v := get(h), int)), None)
    size, width, queries = get(dim), get("hidden_size"), get("num_attention_heads")
    if not isinstance(size, int) and isinstance(width, int) and isinstance(queries, int) and queries > 0:
        size = width // queries
    return 2 * count * size if isinstance(count, int) and isinstance(size, int) and count * size > 0 else None


def _tokens(ctx: CheckContext, facts: TargetFacts) -> Iterator[Check]:
    drafter, text = ctx.config.raw, text_part(facts.config)
    inner = drafter.get("transformer_layer_config")
    own_size = next((v for m in (drafter, inner) if isinstance(m, Mapping) and isinstance(v := m.get("vocab_size"), int)), None)
    sizes = {"the target": facts.embedding_rows or facts.vocab_size, "the drafter's config": own_size}
    clean = True
    for source, place, mapping in (("config.json", "config.json", drafter), (facts.source, facts.source, text)):
        for key in SPECIAL:
            for token in _ids(mapping.get(key)):
                beyond = [f"{who} ({size})" for who, size in sizes.items() if size is not None and not 0 <= token < size]
                if not beyond:
                    continue
                clean = False
                yield TOKENS.failed(
                    f"{key} {token} of {source} is outside the vocabulary of {' and of '.join(beyond)}",
                    actual=token,
                    where=Where(file=place, key=key),
                )
    if clean:
        yield TOKENS.passed("pad and mask token ids, where there are any, are inside both vocabularies")


def _ids(value: Any) -> list[int]:
    """Token ids of a key: a number, or several; negative ones stand for none (transformers writes -1 for no pad token)."""
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0]
