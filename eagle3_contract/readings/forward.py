"""From a reading to what a forward needs, so that a drafter can be run as an engine would run it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import (
    Attention,
    ConcatOrder,
    Feedback,
    LaterLayerNorm,
    Mla,
    NormBeforeFc,
    Owner,
    Reading,
    Rope,
    StepPositions,
    Wiring,
)
from eagle3_contract.readings.reading import BOUNDARIES, CONFIG_CLASS, EngineReading, Outcome
from eagle3_contract.readings.rules import Fate

CHANGED = frozenset({Fate.MISSING_UNINITIALISED, Fate.MISSING_RANDOM, Fate.MISSING_ONES, Fate.MISSING_ZEROS, Fate.SLICED, Fate.ERROR})
"""Fates after which the engine's numbers are not the file's: a replay of the file would prove nothing about the engine."""
NEEDED = (
    BOUNDARIES,
    "hidden_size",
    "target_hidden_size",
    "layers",
    "heads",
    "kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab.draft_size",
    "vocab.size",
    "rms_norm_eps",
    "hidden_act",
    "rope.theta",
    "rope.type",
    "fc.applied",
    "fc.bias",
    "norms.before_fc",
    "wiring.feedback",
    "wiring.norm_before_residual",
    "wiring.later_layer_norm",
    "embedding.used",
    "lm_head.used",
    "vocab.map",
    "window",
    "attention",
)
NOT_SCALING = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})


@dataclass(frozen=True, slots=True)
class CannotRun:
    """Why a forward cannot stand for this engine."""

    reason: str


def to_reading(reading: EngineReading) -> Reading | CannotRun:
    """The recipe and wiring an engine would use, or why they cannot be run.

    The wiring holds the engine's own values (head_dim, key/value heads, rope, window, owners of embedding and head), not the contract's.
    """
    if reading.outcome is not Outcome.OK:
        return CannotRun(f"{reading.reader} does not get that far: {reading.error}")
    foreign = [f.field for f in reading.fields if f.field == CONFIG_CLASS]
    unknown = [n for n in NEEDED if not _known(reading, n)] + foreign
    if unknown:
        return CannotRun(f"{reading.reader}: not known: {', '.join(unknown)}")
    if reading.value("attention.causal") is False:
        return CannotRun(f"{reading.reader} attends to later tokens, which no forward here does")
    if reading.value("vocab.map") not in {m.value for m in VocabMap}:
        return CannotRun(f"{reading.reader} maps draft ids in a way no forward has: {reading.value('vocab.map')}")
    changed = [f"{t.name} ({t.fate.value})" for t in _changed(reading)]
    if changed:
        return CannotRun(f"{reading.reader} would not compute with the file's tensors: {', '.join(changed)}")
    return Reading(reader=reading.reader, recipe=tuple(reading.value(BOUNDARIES)), wiring=_wiring(reading))


def _known(reading: EngineReading, name: str) -> bool:
    return any(f.field == name and f.known for f in reading.fields)


def _changed(reading: EngineReading) -> Iterator[Any]:
    for tensor in reading.tensors:
        unused_fc = tensor.parameter == "model.fc.weight" and not reading.value("fc.applied")
        if tensor.fate in CHANGED and not unused_fc and tensor.parameter not in ("draft_id_to_target_id", "d2t"):
            yield tensor


def _wiring(reading: EngineReading) -> Wiring:
    value = reading.value
    latent = value("attention") == "mla"
    return Wiring(
        hidden_size=value("hidden_size"),
        target_hidden_size=value("target_hidden_size"),
        states=len(value(BOUNDARIES)),
        layers=value("layers"),
        heads=value("heads"),
        kv_heads=value("kv_heads"),
        head_dim=value("head_dim"),
        intermediate_size=value("intermediate_size"),
        draft_vocab_size=value("vocab.draft_size"),
        target_vocab_size=value("vocab.size"),
        rms_norm_eps=value("rms_norm_eps"),
        hidden_act=value("hidden_act"),
        rope=_rope(reading),
        attention=Attention.MLA if latent else Attention.GQA,
        mla=_mla(reading) if latent else None,
        norms_before_fc=tuple(NormBeforeFc(n) for n in value("norms.before_fc")),
        fc_applied=value("fc.applied"),
        fc_bias=value("fc.bias"),
        hidden_norm=value("wiring.hidden_norm") is not False,
        double_norm=bool(value("wiring.double_norm")),
        norm_before_residual=value("wiring.norm_before_residual"),
        later_layer_norm=LaterLayerNorm(value("wiring.later_layer_norm")),
        final_norm=value("wiring.final_norm") is not False,
        feedback=Feedback(value("wiring.feedback")),
        concat_order=ConcatOrder(value("wiring.concat_order") or ConcatOrder.EMBEDDING_FIRST),
        window=value("window"),
        qk_norm=bool(value("qk_norm")),
        qkv_bias=bool(value("attention.qkv_bias")),
        o_bias=bool(value("attention.o_bias")),
        mlp_bias=bool(value("mlp_bias")),
        attention_scale=value("attention.scale"),
        logit_scale=value("logit_scale") or 1.0,
        embedding=Owner(value("embedding.used")),
        lm_head=Owner(value("lm_head.used")),
        vocab_map=VocabMap(value("vocab.map")),
        step_positions=StepPositions(value("wiring.step_positions") or StepPositions.ADVANCE),
        positions_start=value("wiring.positions_start") or 0,
    )


def _rope(reading: EngineReading) -> Rope:
    parameters = reading.value("rope.scaling") or {}
    scaling = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items() if k not in NOT_SCALING}
    if reading.value("rope.type") == "dynamic":
        scaling["static"] = True  # engines build the table once, for its longest position
    return Rope(
        type=reading.value("rope.type"),
        theta=float(reading.value("rope.theta")),
        scaling=scaling,
        table_length=reading.value("rope.table_length"),
        rotary_dim=reading.value("rope.rotary_dim"),
        interleaved=bool(reading.value("rope.interleaved")),
    )


def _mla(reading: EngineReading) -> Mla:
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return Mla(**{n: reading.value(f"mla.{n}") for n in names})
