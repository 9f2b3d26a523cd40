"""An engine's reading of the drafter against the contract: what it will use, where that comes from, and whether training did the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Json, Where
from eagle3_contract.check.compare import agree, said
from eagle3_contract.check.consequences import Consequence, consequence_of, figure_for, told
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.harmless import Difference, fate_reason
from eagle3_contract.check.needed import needed
from eagle3_contract.check.quantized_weights import check_quantization
from eagle3_contract.check.reading_fields import COMPARED, Compared
from eagle3_contract.check.reading_rules import reading_rule
from eagle3_contract.check.serving import SERVE, check_serving
from eagle3_contract.model.names import canonical
from eagle3_contract.readings.reading import CONFIG_CLASS, EngineReading, Field, Outcome
from eagle3_contract.readings.rules import Fate, Origin

OUTCOME: Final = reading_rule(
    "outcome",
    "The engine loads the drafter and answers the first request",
    "engine",
    "An engine that stops at load is loud; one that stops at the first request has passed its health check.",
    "See the error; the source names the place in the engine.",
)
TENSORS: Final = reading_rule(
    "tensors",
    "The engine uses every tensor that training used, whole",
    "weights",
    "Engines drop, cut, pad and shadow tensors without a word, and run missing ones from uninitialised memory, ones or a random init.",
    "Export the checkpoint in the names and shapes of this engine (`contract export`).",
)
SHIFT: Final = reading_rule(
    "token-shift",
    "The engine pairs each state with the token that training paired it with",
    "alignment",
    "SGLang 0.5.23 (speculative/eagle_worker_v2.py:961-1002) and vLLM 0.32.0 (v1/spec_decode/llm_base_proposer.py:844-850) pair g[t] with "
    "x[t+1], always; a drafter trained on another pairing predicts from the wrong row.",
    "Train with token_shift 1, as every known trainer does, or correct alignment.token_shift in the contract.",
)
CLASS: Final = reading_rule(
    "config-class",
    "model_type picks a config class whose defaults are known",
    "keys",
    "SGLang and vLLM read config.json through the transformers class of its model_type, which fills in what the file leaves out: gpt_oss a "
    "window of 128 (vLLM models/llama.py:185-203 then runs the drafter with it), glm4 half of each head's rotation, mixtral a theta of a "
    "million.",
    "Write model_type llama (qwen3 for a drafter with q and k norms, deepseek_v3 or kimi_k2 for latent attention): it need not be the "
    "target's.",
)
RULES: Final = tuple(dict.fromkeys([OUTCOME, CLASS, *(c.rule for c in COMPARED), SHIFT, TENSORS, SERVE]))
ENGINE_SHIFT: Final = 1


def check_reading(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    """Every field of one engine's reading (one version, one runner)."""
    yield _outcome(reading)
    foreign = next((f for f in reading.fields if f.field == CONFIG_CLASS), None)
    if foreign is not None:
        evidence: dict[str, Json] = {"engine": reading.reader, "field": CONFIG_CLASS}
        says = f"{reading.reader}: {foreign.rule}"
        yield CLASS.undecided(says, required=True, fix=CLASS.remedy, where=ctx.config_place("model_type"), evidence=evidence)
    for compared in COMPARED:
        if compared.applies(ctx) and compared.used(reading):
            check = _compare(ctx, reading, compared)
            if check is not None:
                yield check
    yield agree(
        ctx,
        SHIFT,
        ("alignment", "token_shift"),
        ENGINE_SHIFT,
        found_in=reading.reader,
        consequence=told(reading, figure_for(SHIFT.id, None, None))[0].removeprefix(". "),
    )
    if reading.outcome is not Outcome.ERROR_AT_LOAD:
        yield from _tensors(ctx, reading)
    yield from check_quantization(ctx, reading)
    yield from check_serving(ctx, reading)


def _outcome(reading: EngineReading) -> Check:
    if reading.outcome is Outcome.OK:
        return OUTCOME.passed(f"{reading.reader} loads and runs it")
    when = "does not load it" if reading.outcome is Outcome.ERROR_AT_LOAD else "stops at the first request"
    return OUTCOME.failed(
        f"{reading.reader} {when}: {reading.error}",
        expected=Outcome.OK.value,
        actual=reading.outcome.value,
        evidence={"engine": reading.reader, "source": reading.error_source, "outcome": consequence_of(reading).value},
    )


def _origin(field: Field) -> str:
    """Where a value came from, as a clause."""
    if field.origin is Origin.KEY:
        return f"from {field.key}"
    if field.origin is Origin.FLAG:
        return f"from the flag {field.key}"
    if field.origin is Origin.TARGET:
        return "from the target"
    if field.origin is Origin.DEFAULT:
        return f"by default, for it found none of {', '.join(field.looked_for)}" if field.looked_for else "by default"
    return "always" if field.origin is Origin.HARD_CODED else "unknown"


def _compare(ctx: CheckContext, reading: EngineReading, compared: Compared) -> Check | None:
    field = next((f for f in reading.fields if f.field == compared.field), None)
    if field is None:
        return None
    rule, name, stated = compared.rule, compared.name, compared.stated(ctx)
    evidence: dict[str, Json] = {
        "engine": reading.reader,
        "field": field.field,
        "origin": field.origin.value,
        "key": field.key,
        "looked_for": list(field.looked_for),
        "rule": field.rule,
        "source": field.source,
    }
    where = ctx.config_place(field.key) if field.origin is Origin.KEY and field.key else ctx.place(*compared.path)
    if not field.known:
        return rule.undecided(
            f"what {reading.reader} uses for {field.field} is not known: {field.rule}",
            required=compared.required and reading.outcome is Outcome.OK,
            where=where,
            fix="Give --target, or the serving flags with --serve-args.",
            evidence=evidence,
        )
    uses = f"{reading.reader} uses {field.field} {said(field.value)} {_origin(field)}"
    if not stated.known:
        return rule.undecided(
            f"{uses}; the contract does not say {name}: {stated.reason}", where=ctx.place(*compared.path), evidence=evidence
        )
    if compared.equal(ctx, stated.value, field.value):
        return rule.passed(f"{uses}, as training did", expected=stated.value, actual=field.value, evidence=evidence)
    difference = Difference(ctx=ctx, reading=reading, stated=stated.value, actual=field.value)
    if (reason := compared.harmless(difference)) is not None:
        evidence |= {"outcome": Consequence.HARMLESS.value, "reason": reason}
        says = f"{uses}; training: {name} {said(stated.value)}. Harmless: {reason}"
        return rule.passed(says, expected=stated.value, actual=field.value, evidence=evidence)
    figure = figure_for(rule.id, stated.value, field.value, by_default=field.origin is Origin.DEFAULT)
    sentence, consequence = told(reading, figure)
    because = f" ({field.rule})" if field.rule else ""
    if (doubt := compared.doubtful(difference)) is not None:
        says = f"{uses}{because}; training: {name} {said(stated.value)}; {doubt}"
        return rule.undecided(says, required=False, where=where, fix=rule.remedy, evidence=evidence | consequence)
    return rule.failed(
        f"{uses}{because}; training: {name} {said(stated.value)}{sentence}",
        expected=stated.value,
        actual=field.value,
        where=where,
        evidence=evidence | consequence,
    )


_ARRIVES: Final = (Fate.LOADED, Fate.REPLACED_BY_TARGET, Fate.SHARED_FROM_TARGET)
"""Fates that leave a tensor whole, or that the fields ``embedding.used`` and ``lm_head.used`` speak of."""

_ABSENT: Final = (Fate.MISSING_UNINITIALISED, Fate.MISSING_RANDOM, Fate.MISSING_ONES, Fate.MISSING_ZEROS)


def _tensors(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    clean, wanted, harmless = True, needed(ctx).shapes, list[str]()
    for tensor in reading.tensors:
        name = canonical(tensor.name)
        spec = ctx.contract.tensors.get(name)
        if tensor.fate in _ABSENT and name not in wanted and (spec is None or not spec.stored):
            continue  # a parameter that this engine builds and training did not have
        if tensor.fate in _ARRIVES:
            continue
        if (reason := fate_reason(ctx, name, tensor.fate)) is not None:
            harmless.append(f"{tensor.name} {tensor.fate.value}: {reason}")
            continue
        clean = False
        loud = tensor.fate is Fate.ERROR
        sentence, consequence = told(reading, None if loud else figure_for(TENSORS.id, None, None))
        if loud:
            sentence, consequence = ". Loud at load", {"outcome": Consequence.LOUD_AT_LOAD.value}
        sizes = f" ({list(tensor.shape)} for {list(tensor.expected)})" if tensor.shape and tensor.expected else ""
        yield TENSORS.failed(
            f"{reading.reader}: {tensor.name} is {tensor.fate.value.replace('_', ', ')}{sizes}{sentence}",
            expected=Fate.LOADED.value,
            actual=tensor.fate.value,
            where=Where(file=tensor.file, tensor=tensor.name),
            evidence={"engine": reading.reader, "parameter": tensor.parameter} | consequence,
        )
    if clean and reading.tensors:
        evidence: dict[str, Json] = {"outcome": Consequence.HARMLESS.value, "reasons": harmless} if harmless else {}
        yield TENSORS.passed(f"{reading.reader} uses every tensor that training used", evidence=evidence)
