"""The rotary embedding in config.json against the contract, in the spellings of transformers 4 (rope_scaling) and 5 (rope_parameters)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract.findings import Check, Json
from eagle3_contract.check.compare import agree, said, same
from eagle3_contract.check.config_fields import ConfigField, always, check_fields, config_rule, decoder_keys, one_answer
from eagle3_contract.check.config_view import Setting
from eagle3_contract.check.context import CheckContext

_R: Final = "rope"
_OUTSIDE_SCALING: Final = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})

THETA: Final = config_rule(
    "rope-theta",
    "rope_theta is that of training",
    _R,
    "Readers take the drafter's own theta and fall back to 10000 without a word. SpecForge once trained with 10000 whatever the config "
    "said (SpecForge#265: 3.612 against 3.556 accepted), transformers 5 moved the key (Automodel#2920: 5000000 became 10000).",
    "Write the theta of training under rope_theta, and under rope_parameters.rope_theta if that mapping exists.",
)
TYPE: Final = config_rule(
    "rope-type",
    "The rotary scheme of config.json is that of training",
    _R,
    "ModelOpt's export writes YaRN (factor 32 over 2048) into config.json although training used plain rope (modelopt "
    "hf_spec_export.py:213); unknown types were mapped to llama3 silently (Automodel#2825). Acceptance decays with the position.",
    "Write the scheme of training under rope_scaling (and rope_parameters if that mapping exists); remove it for plain rope.",
)
SCALING: Final = config_rule(
    "rope-scaling",
    "The parameters of the rotary scheme are those of training",
    _R,
    "factor, original_max_position_embeddings, beta_fast, mrope_section and so on change every frequency; nothing compares them with the "
    "target's or with training's.",
    "Write the parameters of training.",
)
TABLE: Final = config_rule(
    "table-length",
    "max_position_embeddings is that of training",
    _R,
    "A head built for 2048 positions is slower than none beyond them (sglang#6783); SGLang 0.5.23 refuses a length below the target's "
    "context, vLLM 0.32.0 raises it silently.",
    "Write the number of positions the drafter was trained for.",
)
ROTARY_DIM: Final = config_rule(
    "rotary-dim",
    "The rotated part of a head is that of training",
    _R,
    "partial_rotary_factor times head_dim; without the key the whole head is rotated.",
)

FIELDS: Final = (
    ConfigField(rule=TABLE, path=("wiring", "rope", "table_length"), find=decoder_keys("max_position_embeddings"), fallback=always(2048)),
    ConfigField(rule=THETA, path=("wiring", "rope", "theta"), find=lambda view: view.rope("rope_theta"), fallback=always(10000.0)),
)


def check_rope(ctx: CheckContext) -> Iterator[Check]:
    """Type, theta, scaling parameters, table length and rotated width."""
    yield from check_fields(ctx, FIELDS)
    if ctx.drafter.config is None:
        return
    if _per_attention_type(ctx):
        yield TYPE.undecided(
            "rope_parameters has an entry per attention type (transformers 5); which one a drafter layer takes depends on the reader",
            where=ctx.config_place("rope_parameters"),
        )
        return
    holders = [h for h in ctx.config.decoder("rope_parameters", "rope_scaling") if isinstance(h.value, Mapping)]
    yield from _type(ctx, holders)
    yield from _scaling(ctx, holders)
    yield _rotary_dim(ctx)


def _per_attention_type(ctx: CheckContext) -> bool:
    found = ctx.config.decoder("rope_parameters")
    value = found[0].value if found else None
    return isinstance(value, Mapping) and any(isinstance(v, Mapping) for v in value.values())


def rope_type(holder: Mapping[str, Json]) -> Json:
    """The scheme that one mapping names. An mrope_section makes it mrope, also where the type says default (Qwen3-VL heads)."""
    named = holder.get("rope_type", holder.get("type", "default"))
    return "mrope" if named in ("default", None) and holder.get("mrope_section") is not None else named or "default"


def _type(ctx: CheckContext, holders: list[Setting]) -> Iterator[Check]:
    answers = [Setting(h.key, rope_type(h.value)) for h in holders]
    yield from one_answer(ctx, answers)
    value = answers[0].value if answers else "default"
    stated = ctx.value("wiring", "rope", "type")
    modelopt = value == "yarn" and stated == "default"
    yield agree(
        ctx,
        TYPE,
        ("wiring", "rope", "type"),
        value,
        found_in=f"config.json ({answers[0].key})" if answers else "config.json (no scaling)",
        where=ctx.config_place(answers[0].key if answers else "rope_scaling"),
        consequence="ModelOpt's export adds YaRN to drafters that were trained with plain rope (modelopt hf_spec_export.py:213)."
        if modelopt
        else "",
        fix="Remove rope_scaling from config.json." if modelopt else None,
    )


def _scaling(ctx: CheckContext, holders: list[Setting]) -> Iterator[Check]:
    stated = ctx.contract.wiring.rope.scaling
    given: dict[str, Any] = {}
    for holder in holders:
        for key, value in holder.value.items():
            if key not in _OUTSIDE_SCALING and value is not None:
                given.setdefault(key, value)
    for key in sorted(stated.keys() | given.keys()):
        expected, actual = stated.get(key), given.get(key)
        if key in stated and key in given and same(expected, actual):
            yield SCALING.passed(f"config.json and the contract both say {key} {said(actual)}", expected=expected, actual=actual)
            continue
        yield SCALING.failed(
            f"{key} of the rotary scheme is {said(actual) if key in given else 'absent'} in config.json and "
            f"{said(expected) if key in stated else 'absent'} in the contract",
            expected=expected,
            actual=actual,
            where=ctx.config_place(f"{holders[0].key}.{key}" if holders else f"rope_scaling.{key}"),
        )
    if not stated and not given:
        yield SCALING.passed("neither config.json nor the contract scales the rotary frequencies")


def _rotary_dim(ctx: CheckContext) -> Check:
    path = ("wiring", "rope", "rotary_dim")
    if ctx.contract.wiring.mla is not None:
        found = ctx.config.decoder("qk_rope_head_dim")
        actual = found[0].value if found else None
        return agree(ctx, ROTARY_DIM, path, actual, found_in="config.json (qk_rope_head_dim)", where=ctx.config_place("qk_rope_head_dim"))
    factor = [s for s in ctx.config.rope("partial_rotary_factor") if s.value is not None]
    head_dim = ctx.value("wiring", "head_dim")
    if head_dim is None:
        return ROTARY_DIM.undecided("the contract does not say head_dim", where=ctx.place("wiring", "head_dim"))
    share = factor[0].value if factor else 1.0
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        return ROTARY_DIM.failed(
            f"partial_rotary_factor is {said(share)}, no share of a head", actual=share, where=ctx.config_place(factor[0].key)
        )
    key = factor[0].key if factor else "partial_rotary_factor"
    return agree(ctx, ROTARY_DIM, path, int(head_dim * share), found_in=f"config.json ({key} {said(share)})", where=ctx.config_place(key))


RULES: Final = (THETA, TYPE, SCALING, TABLE, ROTARY_DIM)
