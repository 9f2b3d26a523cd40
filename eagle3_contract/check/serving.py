"""Serving flags: what was asked for, what takes effect, and what the contract says; nothing where no flags were given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract.findings import Check, Json, Rule, Severity
from eagle3_contract.check.compare import said, same
from eagle3_contract.check.consequences import Consequence
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.serving_notes import NOTES
from eagle3_contract.check.serving_rules import (
    ALGORITHM,
    CONTEXT,
    DRAFT_PATH,
    OVERRIDDEN,
    QUANTIZATION,
    REJECTION,
    RULES,
    SERVED_MODEL,
    TRAINED_LENGTH,
)
from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.load import folder_name
from eagle3_contract.readings.reading import EngineReading, Field, Outcome
from eagle3_contract.readings.rules import Origin
from eagle3_contract.readings.serve_asked import asked, flag_text, flag_value

__all__ = ["RULES", "SERVE", "check_serving"]

SERVE: Final = Rule(
    id="reading.serve",
    title="The serving flags give the steps, topk and draft tokens of the contract",
    severity=Severity.ERROR,
    dimension="flags",
    why="SGLang overwrites num_draft_tokens by steps + 1 at topk 1 with one warning line; --speculative-num-steps 1 limited 16 draft "
    "tokens to 2 in the incident that this project was born from.",
    remedy="Give the flags that the contract's serving section says.",
)
COUNTS: Final = ("serve.steps", "serve.topk", "serve.draft_tokens")
LENGTHS: Final = ("serve.context_length", "serve.max_model_len")
WANTED: Final = "eagle3"
_AS_EAGLE_1: Final = "fc is skipped, the target's normed last state is fed, its head is used and d2t is not (seen on sglang 0.5.23)"


def check_serving(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    """Every rule about flags, for one engine."""
    if not reading.asked:
        yield SERVE.skipped(f"no serving flags were given for {reading.reader}", evidence={"engine": reading.reader})
        yield from _unasked_length(ctx, reading)
        return
    yield from _algorithm(reading)
    yield from _overridden(reading)
    yield from _numbers(ctx, reading)
    yield from _draft_path(reading)
    yield from _served_model(ctx, reading)
    yield from _lengths(ctx, reading)
    yield from _quantization(reading)
    yield from _rejection(ctx, reading)
    for note in NOTES:
        if (name := note.given(reading)) is not None:
            says = f"{reading.reader} with {flag_text(name)} {said(flag_value(reading.asked, name))}: {note.says} ({note.source})"
            yield note.rule.failed(says, evidence=_evidence(reading, flag=flag_text(name), source=note.source))


def _evidence(reading: EngineReading, outcome: Consequence | None = None, **more: Json) -> dict[str, Json]:
    return {"engine": reading.reader, **more} | ({} if outcome is None else {"outcome": outcome.value})


def _effective(reading: EngineReading, *names: str) -> Field | None:
    return next((f for f in reading.effective if f.field in names), None)


def _algorithm(reading: EngineReading) -> Iterator[Check]:
    field = _effective(reading, "serve.algorithm", "serve.method")
    if field is None or not field.known:
        return
    value = "" if field.value is None else str(field.value)
    if value.lower() == WANTED:
        yield ALGORITHM.passed(f"{reading.reader} runs {value}", expected=WANTED, actual=value, evidence=_evidence(reading))
        return
    if not value:
        says = f"{reading.reader} drafts nothing: {field.rule}"
    else:
        what = f": {_AS_EAGLE_1}" if reading.engine == "sglang" and value.upper() in ("EAGLE", "NEXTN") else ""
        says = f"{reading.reader} is asked for {value}, the drafter is an EAGLE-3 one{what}"
    outcome = Consequence.SILENT if reading.outcome is Outcome.OK else Consequence.LOUD_AT_LOAD
    yield ALGORITHM.failed(says, expected=WANTED, actual=field.value, evidence=_evidence(reading, outcome, source=field.source))


def _overridden(reading: EngineReading) -> Iterator[Check]:
    """Numbers that were asked for against those that take effect."""
    agreed = []
    for field in reading.effective:
        name, wanted = asked(reading, field.field)
        if field.field not in (*COUNTS, *LENGTHS) or wanted is MISSING or wanted is None or not field.known:
            continue
        if same(wanted, field.value):
            agreed.append(f"{flag_text(name)} {said(wanted)}")
            continue
        yield OVERRIDDEN.failed(
            f"{reading.reader}: asked {flag_text(name)} {said(wanted)}, effective {said(field.value)}: {field.rule}",
            expected=wanted,
            actual=field.value,
            evidence=_evidence(reading, Consequence.SILENT, flag=flag_text(name), source=field.source),
        )
    if agreed:
        yield OVERRIDDEN.passed(f"{reading.reader} takes {', '.join(agreed)} as asked", evidence=_evidence(reading))


def _numbers(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    """Steps, topk and draft tokens against the contract's serving section."""
    known = {f.field.removeprefix("serve."): f for f in reading.effective}
    pairs = (("steps", "steps"), ("topk", "topk"), ("draft_tokens", "draft_tokens")) if "steps" in known else (("draft_tokens", "steps"),)
    for name, stated_as in pairs:
        field, stated = known.get(name), ctx.stated("serving", stated_as)
        if field is None:
            continue
        where, because = ctx.place("serving", stated_as), f" ({field.rule})" if field.rule else ""
        evidence = _evidence(reading, source=field.source)
        if not field.known or not stated.known:
            text = f"{reading.reader}: {name} cannot be compared: {field.rule or stated.reason}"
            yield SERVE.undecided(text, required=False, where=where, evidence=evidence)
        elif same(field.value, stated.value):
            text = f"{reading.reader} serves with {name} {said(field.value)}"
            yield SERVE.passed(text, expected=stated.value, actual=field.value, evidence=evidence)
        else:
            yield SERVE.failed(
                f"{reading.reader} serves with {name} {said(field.value)}{because}; the contract says {stated_as} {said(stated.value)}",
                expected=stated.value,
                actual=field.value,
                where=where,
                evidence=evidence | {"outcome": Consequence.SILENT.value},
            )


def _draft_path(reading: EngineReading) -> Iterator[Check]:
    if reading.engine == "sglang":
        name, drafts = "speculative_draft_model_path", reading.value("serve.algorithm") is not None
    elif reading.engine == "vllm":
        name, drafts = "speculative_config.model", flag_value(reading.asked, "speculative_config") not in (MISSING, None)
    else:
        return
    given = flag_value(reading.asked, name)
    if not drafts or (given is MISSING and reading.engine == "sglang"):
        return  # a command line without the flag says None (serve_args); a mapping without it says nothing
    if given not in (MISSING, None, ""):
        yield DRAFT_PATH.passed(f"{reading.reader} is given the drafter {said(given)}", evidence=_evidence(reading))
        return
    outcome = Consequence.LOUD_AT_LOAD if reading.outcome is not Outcome.OK else Consequence.SILENT
    yield DRAFT_PATH.failed(
        f"{reading.reader} is given no {flag_text(name)}: it takes the target for its own drafter",
        actual=None,
        evidence=_evidence(reading, outcome, flag=flag_text(name)),
    )


def _served_model(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    """``vllm serve DRAFTER``: the folder's config brings target and token count, or nothing does."""
    model = next((m for n in ("model", "model_path") if isinstance(m := flag_value(reading.asked, n), str)), None)
    if model is None or model.rstrip("/").rpartition("/")[2].lower() != folder_name(ctx.drafter.folder).rpartition("/")[2].lower():
        return
    raw, stated = ctx.config.raw, ctx.value("target", "id")
    section = raw.get("speculators_config")
    verifier = section.get("verifier") if isinstance(section, Mapping) else None
    named = verifier.get("name_or_path") if isinstance(verifier, Mapping) else None
    evidence = _evidence(reading, Consequence.LOUD_AT_LOAD, model=model)
    if reading.engine != "vllm" or not isinstance(named, str):
        says = f"{reading.reader} is told to serve the drafter's folder {model} as the model, and its config names no verifier"
        yield SERVED_MODEL.failed(says, actual=model, evidence=evidence)
    elif stated is not None and _last(named) != _last(stated):
        says = f"{reading.reader} serves {named}, the verifier that the drafter's config names; the contract's target is {stated}"
        yield SERVED_MODEL.failed(says, expected=stated, actual=named, evidence=evidence | {"outcome": Consequence.SILENT.value})
    else:
        tokens = reading.value("serve.draft_tokens")
        yield SERVED_MODEL.passed(f"{reading.reader} serves {named} with {said(tokens)} draft tokens, both from the drafter's config")


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _lengths(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    field = _effective(reading, *LENGTHS)
    if field is None or not field.known or not isinstance(field.value, int):
        return
    table, trained = ctx.value("wiring", "rope", "table_length"), ctx.value("training", "max_length")
    tells = f"{reading.reader} serves up to {field.value} tokens"
    evidence = _evidence(reading, source=field.source)
    if isinstance(table, int) and field.value > table:
        outcome = Consequence.SILENT if reading.outcome is Outcome.OK else Consequence.LOUD_AT_LOAD
        yield CONTEXT.failed(
            f"{tells}, the drafter's rope table ends at {table} "
            f"({'nobody says so' if outcome is Consequence.SILENT else 'the engine refuses it at start'})",
            expected=f"<= {table}",
            actual=field.value,
            where=ctx.place("wiring", "rope", "table_length"),
            evidence=evidence | {"outcome": outcome.value},
        )
    elif isinstance(table, int):
        yield CONTEXT.passed(f"{tells}, within the drafter's table of {table}", expected=f"<= {table}", actual=field.value)
    if isinstance(trained, int) and field.value > trained:
        yield TRAINED_LENGTH.failed(
            f"{tells}, training saw {trained}",
            expected=f"<= {trained}",
            actual=field.value,
            where=ctx.place("training", "max_length"),
            evidence=evidence | {"outcome": Consequence.SILENT.value},
        )


def _unasked_length(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    """Without flags the target's own context is served; where the engine starts all the same, nobody hears that it is too long."""
    field, table = _effective(reading, *LENGTHS), ctx.value("wiring", "rope", "table_length")
    if field is None or not field.known or reading.outcome is not Outcome.OK:
        return
    if isinstance(field.value, int) and isinstance(table, int) and field.value > table:
        yield TRAINED_LENGTH.failed(
            f"{reading.reader} serves up to {field.value} tokens if no flag says otherwise, the drafter's rope table ends at {table}",
            expected=f"<= {table}",
            actual=field.value,
            where=ctx.place("wiring", "rope", "table_length"),
            evidence=_evidence(reading, Consequence.SILENT, source=field.source),
        )


def _quantization(reading: EngineReading) -> Iterator[Check]:
    field = next((f for f in reading.fields if f.field == "quantization"), None)
    if field is None or not field.known:
        return
    if field.value is None or field.origin is not Origin.FLAG:
        named = f"{said(field.value)}, which its own files declare" if field.value is not None else "no quantisation"
        yield QUANTIZATION.passed(f"{reading.reader} runs the drafter in {named}", actual=field.value)
        return
    inherited = " (inherited from the target)" if field.key in ("--quantization", "quantization") else ""
    yield QUANTIZATION.failed(
        f"{reading.reader} runs the drafter in {said(field.value)}, from {field.key}{inherited}; its weights are stored unquantised",
        expected=None,
        actual=field.value,
        evidence=_evidence(reading, Consequence.SILENT, source=field.source),
    )


def _rejection(ctx: CheckContext, reading: EngineReading) -> Iterator[Check]:
    given: Any = flag_value(reading.asked, "speculative_use_rejection_sampling")
    if reading.engine != "sglang" or given in (MISSING, None, False):
        return
    draft, target = ctx.value("vocab", "draft_size"), ctx.value("vocab", "target_size")
    if draft is None or target is None or draft == target:
        yield REJECTION.passed(f"{reading.reader}: draft and target share a vocabulary of {said(target)}")
        return
    yield REJECTION.failed(
        f"{reading.reader} refuses rejection sampling: the drafter has {draft} tokens, the target {target}",
        expected=target,
        actual=draft,
        evidence=_evidence(reading, Consequence.LOUD_AT_LOAD),
    )
