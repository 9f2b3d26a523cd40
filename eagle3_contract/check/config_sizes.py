"""Sizes in config.json against the contract: widths, heads, layers, vocabularies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from contract.findings import Check
from eagle3_contract.check.compare import agree, said
from eagle3_contract.check.config_fields import (
    NO_FALLBACK,
    ONE_ANSWER,
    ConfigField,
    check_fields,
    config_rule,
    decoder_keys,
    from_config,
    top_keys,
)
from eagle3_contract.check.context import CheckContext

_S: Final = "shapes"
_CUT: Final = (
    "SGLang 0.5.23 and vLLM 0.32.0 size their modules from config.json and cut larger weights silently (observed on both engines)."
)


def _head_dim(ctx: CheckContext) -> Any:
    hidden, heads = ctx.config.decoder("hidden_size"), ctx.config.decoder("num_attention_heads")
    if not hidden or not heads or not isinstance(hidden[0].value, int) or not isinstance(heads[0].value, int) or heads[0].value < 1:
        return NO_FALLBACK
    return hidden[0].value // heads[0].value


def _gqa(ctx: CheckContext) -> bool:
    return bool(ctx.value("wiring", "attention") != "mla")


HIDDEN: Final = config_rule("hidden-size", "hidden_size is the drafter's width", _S, f"The width of every module. {_CUT}")
INTERMEDIATE: Final = config_rule("intermediate-size", "intermediate_size is that of training", _S, f"The width of the MLP. {_CUT}")
HEADS: Final = config_rule("heads", "num_attention_heads is that of training", _S, f"How q_proj's rows are split into heads. {_CUT}")
KV_HEADS: Final = config_rule(
    "kv-heads",
    "num_key_value_heads is that of training",
    _S,
    f"How k_proj's and v_proj's rows are split into heads; without the key readers take the number of query heads. {_CUT}",
)
HEAD_DIM: Final = config_rule(
    "head-dim",
    "head_dim is that of training",
    _S,
    "Without the key readers divide hidden_size by the number of heads, which is wrong for many drafters: AngelSlim/Qwen3-4B_eagle3 said "
    "80 with weights for 128 (AngelSlim#5, EAGLE#315), Qwen3-32B heads crashed vLLM with 80 instead of 128 (speculators#134). It also "
    "sets rope's frequencies and the attention scale.",
    "Write head_dim into config.json.",
)
LAYERS: Final = config_rule(
    "layers",
    "num_hidden_layers is the number of layers in the weights",
    _S,
    "yuhuili/EAGLE3-Vicuna1.3-13B says 40 and has one (BaldEagle#6). SGLang and vLLM do not look for missing tensors: layers without "
    "weights run on uninitialised memory and the acceptance is gone (observed: vLLM 0.32.0 with two layers and one layer's weights).",
    "Write the number of layers that the weights have.",
)
DRAFT_VOCAB: Final = config_rule(
    "draft-vocab-size",
    "draft_vocab_size is the number of rows of the head",
    "vocab",
    "Without the key SGLang 0.5.23 stops with an AttributeError and vLLM 0.32.0 takes vocab_size (llama_eagle3.py:316), so that a d2t in "
    "the file is refused; null makes SGLang use the target's head instead of the drafter's own.",
    "Write draft_vocab_size into config.json, also where it equals vocab_size.",
)
VOCAB: Final = config_rule(
    "vocab-size",
    "vocab_size is the target's vocabulary",
    "vocab",
    "It sizes the embedding and the scattered logits. Too small, vLLM 0.32.0 dies at the first request (IndexError in compute_logits).",
)
TARGET_HIDDEN: Final = config_rule(
    "target-hidden-size",
    "target_hidden_size is the width of the target's states",
    _S,
    "fc is count x target_hidden_size wide. Without the key readers take the drafter's own width; a differing one is then a load error "
    "(vLLM) or, with null, a TypeError (SGLang 0.5.23 llama_eagle3.py:151-154).",
    "Write target_hidden_size if the target is wider or narrower than the drafter.",
)
MLA: Final = config_rule(
    "mla-sizes",
    "The sizes of the latent attention are those of training",
    _S,
    "q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim decide how the projections are cut into heads; the "
    "products alone do not tell them apart.",
)

FIELDS: Final = (
    ConfigField(rule=HIDDEN, path=("wiring", "hidden_size"), find=decoder_keys("hidden_size")),
    ConfigField(rule=INTERMEDIATE, path=("wiring", "intermediate_size"), find=decoder_keys("intermediate_size")),
    ConfigField(rule=HEADS, path=("wiring", "heads"), find=decoder_keys("num_attention_heads")),
    ConfigField(
        rule=KV_HEADS,
        path=("wiring", "kv_heads"),
        find=decoder_keys("num_key_value_heads"),
        fallback=from_config("num_attention_heads"),
        applies=_gqa,
    ),
    ConfigField(rule=HEAD_DIM, path=("wiring", "head_dim"), find=decoder_keys("head_dim"), fallback=_head_dim, applies=_gqa),
    ConfigField(rule=LAYERS, path=("wiring", "layers"), find=decoder_keys("num_hidden_layers")),
    ConfigField(rule=DRAFT_VOCAB, path=("vocab", "draft_size"), find=top_keys("draft_vocab_size")),
    ConfigField(
        rule=TARGET_HIDDEN,
        path=("target", "hidden_size"),
        find=top_keys("target_hidden_size"),
        fallback=from_config("hidden_size"),
    ),
)


def check_config_sizes(ctx: CheckContext) -> Iterator[Check]:
    """Every size of config.json, the padded vocabulary allowed where the contract states one."""
    yield from check_fields(ctx, FIELDS)
    if ctx.drafter.config is None:
        return
    yield from _vocab(ctx)
    yield from _mla(ctx)


def _vocab(ctx: CheckContext) -> Iterator[Check]:
    found = ctx.config.decoder("vocab_size")
    if not found:
        yield VOCAB.failed(
            "config.json has no vocab_size", expected=ctx.value("vocab", "target_size"), where=ctx.config_place("vocab_size")
        )
        return
    setting, padded = found[0], ctx.value("vocab", "target_padded_size")
    field = "target_padded_size" if padded is not None and setting.value == padded else "target_size"
    yield agree(ctx, VOCAB, ("vocab", field), setting.value, found_in=f"config.json ({setting.key})", where=ctx.config_place(setting.key))


def _mla(ctx: CheckContext) -> Iterator[Check]:
    mla = ctx.contract.wiring.mla
    if mla is None:
        yield MLA.skipped("the contract has no latent attention")
        return
    for name in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        stated, found = getattr(mla, name), ctx.config.decoder(name)
        actual = found[0].value if found else None
        if type(actual) is type(stated) and actual == stated:
            yield MLA.passed(f"config.json and the contract both say {name} {said(stated)}", expected=stated, actual=actual)
        else:
            yield MLA.failed(
                f"config.json says {name} {said(actual)}, the contract {said(stated)}",
                expected=stated,
                actual=actual,
                where=ctx.config_place(name),
            )


RULES: Final = (ONE_ANSWER, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, LAYERS, DRAFT_VOCAB, VOCAB, TARGET_HIDDEN, MLA)
