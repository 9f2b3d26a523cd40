"""A quantisation that the drafter's own files declare, against the weights that are stored: an engine believes the declaration.

vLLM 0.32.0 (models/utils.py:985-1007, layers/quantization/fp8.py:158-160, 282-350) and SGLang 0.5.23 (configs/model_config.py:1727-1819,
2000-2136) make quantised parameters wherever a file of the drafter names a method, and copy what is stored into them. Whatever quantises
while loading does so by a flag, which ``serve.quantization`` speaks of; a method in a file says that the weights are quantised already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract.findings import Check, Json
from eagle3_contract.check.compare import said
from eagle3_contract.check.consequences import consequence_of
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.reading_rules import reading_rule
from eagle3_contract.readings.reading import EngineReading, Field, Outcome
from eagle3_contract.readings.rules import Origin

QUANTIZATION: Final = reading_rule(
    "quantization",
    "The weights are stored in the quantisation that the drafter's files declare",
    "weights",
    "An engine that finds quantization_config, compression_config or hf_quant_config.json makes quantised parameters, casts bfloat16 "
    "weights into them and never loads a scale (vLLM 0.32.0 layers/quantization/fp8.py:282-350; SGLang 0.5.23 "
    "configs/model_config.py:1727-1819): it starts, answers, and drafts garbage.",
    "Remove quantization_config, compression_config or hf_quant_config.json from the drafter's folder: it was copied from the target.",
)
RULES: Final = (QUANTIZATION,)

SECTIONS: Final = ("quantization_config", "compression_config")
FILE: Final = "hf_quant_config.json"
EXPERTS_ONLY: Final = frozenset({"experts_int8", "mxfp4", "gpt_oss_mxfp4"})
"""Methods that leave linear layers as they are (vLLM 0.32.0 layers/quantization/experts_int8.py:56-60, mxfp4.py:94-105)."""
_PROJECTION: Final = re.compile(r"(?:^|\.)(?:[a-z]+(?:_[ab])?_proj|kv_a_proj_with_mqa)$")
_PLAIN: Final = frozenset({"bfloat16", "float16", "float32", "float64"})
_NO_WEIGHT: Final = frozenset({"bias", "input_scale", "output_scale", "k_scale", "v_scale", "q_scale"})
"""Neighbours of a weight that say nothing about how it is stored: scales of activations and of the cache."""
_WANTS: Final[tuple[tuple[tuple[str, ...], frozenset[str]], ...]] = (
    (("awq", "auto_awq", "gptq", "auto_gptq", "moe_wna16"), frozenset({"qweight"})),
    (("compressed",), frozenset({"weight_scale", "weight_packed"})),
    (("fp8", "fbgemm_fp8", "modelopt", "nvfp4", "mxfp8"), frozenset({"weight_scale", "weight_scale_inv"})),
)
"""Starts of a method's name, and the tensors beside a layer one of which it loads. Other methods: any neighbour."""
_EXCLUSIONS: Final = ("ignored_layers", "modules_to_not_convert", "ignore", "exclude_modules", "exclude")


def check_quantization(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    """What one engine makes of a declared quantisation; nothing where none is declared."""
    field = next((f for f in reading.fields if f.field == "quantization"), None)
    sections = {name: s for name in SECTIONS for s in _sections(ctx, name)}
    plain, others = _layers(ctx, str(field.value) if field is not None and field.known else "")
    declared = bool(sections) or FILE in ctx.drafter.files
    if field is None or not field.known:
        engine_knows_it = field is not None and (field.looked_for or field.rule)
        if plain and reading.outcome is Outcome.OK and (bool(sections) or (declared and engine_knows_it)):
            yield QUANTIZATION.undecided(_unknown(reading, field, sections, plain), required=True, fix=QUANTIZATION.remedy)
        return
    if field.value is None or field.origin is Origin.FLAG:
        return
    evidence: dict[str, Json] = {"engine": reading.reader, "key": field.key, "source": field.source}
    says = f"{reading.reader} takes {said(field.value)} from {field.key}"
    if str(field.value).lower() in EXPERTS_ONLY:
        yield QUANTIZATION.passed(f"{says}, a method that leaves linear layers as they are", actual=field.value, evidence=evidence)
    elif not plain:
        yield QUANTIZATION.passed(f"{says}, and the weights are stored so", actual=field.value, evidence=evidence)
    elif excluded := _exclusions(sections, plain):
        if others:
            yield QUANTIZATION.passed(f"{says}; what is stored otherwise may be excluded", actual=field.value, evidence=evidence)
        else:
            yield QUANTIZATION.undecided(
                f"{says}; no layer is stored so, and whether {said(excluded[:4])} excludes all of them is the engine's own matching",
                required=True,
                fix=QUANTIZATION.remedy,
                evidence=evidence,
            )
    elif others and field.key is not None and field.key.startswith(FILE):
        yield QUANTIZATION.passed(f"{says}; what is stored otherwise may be excluded there", actual=field.value, evidence=evidence)
    else:
        yield QUANTIZATION.failed(
            f"{says} and makes quantised parameters; {len(plain)} layers are not stored so ({_example(ctx, plain[0])}): scales stay unset",
            expected=None,
            actual=field.value,
            where=None if field.key is None or field.key.startswith(FILE) else ctx.config_place(field.key),
            evidence=evidence | {"outcome": consequence_of(reading).value, "layers": list(plain[:8])},
        )


def _unknown(reading: EngineReading, field: Field | None, sections: Mapping[str, Any], plain: tuple[str, ...]) -> str:
    why = field.rule if field is not None and field.rule else "what it makes of that is not known"
    named = ", ".join(sections) or FILE
    return f"{named} declares a quantisation, {len(plain)} layers are stored unquantised; {reading.reader}: {why}"


def _sections(ctx: CheckContext, name: str) -> Iterator[Mapping[str, Any]]:
    """The section at the top level or in the decoder's part, unless it is empty."""
    for holder in (ctx.config.raw, ctx.config.raw.get("transformer_layer_config")):
        section = holder.get(name) if isinstance(holder, Mapping) else None
        if isinstance(section, Mapping) and section:
            yield section


def _layers(ctx: CheckContext, method: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Projections whose stored tensors a method does not load, and those whose tensors it loads."""
    stored: dict[str, set[str]] = {}
    for tensor in ctx.drafter.tensors:
        layer, _, last = tensor.name.rpartition(".")
        stored.setdefault(layer.removesuffix(".weight"), set()).add(last)
    dtypes = {t.name: t.dtype for t in ctx.drafter.tensors}
    wants = next((w for starts, w in _WANTS if method.lower().startswith(starts)), None)
    plain: list[str] = []
    others: list[str] = []
    for layer, lasts in stored.items():
        if not _PROJECTION.search(layer) or not lasts - _NO_WEIGHT:
            continue
        beside = lasts - {"weight"} - _NO_WEIGHT
        bare = not beside & wants if wants is not None else not beside and dtypes.get(f"{layer}.weight") in _PLAIN
        (plain if bare else others).append(layer)
    return tuple(plain), tuple(others)


def _example(ctx: CheckContext, layer: str) -> str:
    dtype = next((t.dtype for t in ctx.drafter.tensors if t.name == f"{layer}.weight"), "?")
    return f"{layer}.weight is {dtype}, without the scales of that method"


def _exclusions(sections: Mapping[str, Any], layers: tuple[str, ...]) -> list[str]:
    """Entries of the lists of excluded modules that may name one of these layers; each engine matches them in its own way."""
    found: list[str] = []
    for section in sections.values():
        nested = section.get("quantization")
        for holder in (section, nested if isinstance(nested, Mapping) else {}):
            for key in _EXCLUSIONS:
                entries = holder.get(key)
                found += [e for e in entries if isinstance(e, str) and _may_name(e, layers)] if isinstance(entries, list) else []
            groups = holder.get("config_groups")
            for group in groups.values() if isinstance(groups, Mapping) else ():
                targets = group.get("targets") if isinstance(group, Mapping) else None
                found += [t for t in targets if isinstance(t, str) and t != "Linear"] if isinstance(targets, list) else []
            found += [k for k in ("quantized_layers", "layer_quant_config", "dynamic") if holder.get(k)]
    return found


def _may_name(entry: str, layers: tuple[str, ...]) -> bool:
    if not entry or any(mark in entry for mark in "*^$?") or entry.startswith("re:"):
        return True
    last = entry.rpartition(".")[2]
    return any(entry in layer or layer.endswith(f".{last}") for layer in layers)
