"""The engine's own reading of the drafter's files, as wirings to try: the first suspects, since they name the key that makes it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from contract.errors import UserError
from contract.files.bundle_manifest import Manifest
from eagle3_contract.drafter.drafter import rotary_dim
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.wiring import Attention, LaterLayerNorm, Wiring
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.load import load_drafter, load_target
from eagle3_contract.readings.reading import EngineReading, Field
from eagle3_contract.readings.rules import Origin
from eagle3_contract.verify.engine_drafter.variants import Variant, in_words
from eagle3_contract.verify.inference import REFERENCE, flags_of

FIELDS: Final[Mapping[str, str]] = {
    "norm_before_residual": "wiring.norm_before_residual",
    "feedback": "wiring.feedback",
    "later_layer_norm": "wiring.later_layer_norm",
    "final_norm": "wiring.final_norm",
    "hidden_norm": "wiring.hidden_norm",
    "double_norm": "wiring.double_norm",
    "concat_order": "wiring.concat_order",
    "norms_before_fc": "norms.before_fc",
    "fc_applied": "fc.applied",
    "fc_bias": "fc.bias",
    "rope": "rope.theta",
    "embedding": "embedding.used",
    "lm_head": "lm_head.used",
    "vocab_map": "vocab.map",
}
"""Fields of a wiring under the names that readings have for them; the others are called the same."""


def differing(a: Wiring, b: Wiring) -> list[str]:
    """Names of the fields in which two wirings differ, as far as a forward on recorded inputs can tell them."""
    silent = {"states", "step_positions", "positions_start", "token_shift", "target_vocab_size", "window_follows_steps"}
    a, b = _plain(a), _plain(b)
    return [n for n in a.__dataclass_fields__ if n not in silent and getattr(a, n) != getattr(b, n)]


def _plain(w: Wiring) -> Wiring:
    """Without what decides nothing: the norm of later layers where there is one layer, a rope table that is only looked up."""
    rope = replace(w.rope, rotary_dim=rotary_dim(w), table_length=w.rope.table_length if w.rope.type == "dynamic" else None)
    latent = w.mla if w.attention is Attention.MLA else None
    return replace(w, rope=rope, mla=latent, later_layer_norm=w.later_layer_norm if w.layers > 1 else LaterLayerNorm.NONE)


def engine_readings(manifest: Manifest, loaded: LoadedContract, target: str | None) -> list[EngineReading]:
    """What the engine that captured (or was imitated) makes of the drafter's files; none if its version is unknown here."""
    who = manifest.imitates
    if who is None and manifest.engine.name == REFERENCE:
        return []
    name, runner, version = (
        (manifest.engine.name, manifest.engine.runner, manifest.engine.version) if who is None else (who.name, who.runner, who.version)
    )
    try:
        view = load_drafter(loaded.drafter_folder)
        facts = load_target(target) if target is not None else None
        for reference in _references(name, runner, version):
            try:
                return list(read(view, reference, facts, flags_of(manifest)))
            except UserError:
                continue
    except UserError:
        return []
    return []


def _references(name: str, runner: str | None, version: str | None) -> Iterator[str]:
    """As exactly as the capture says it, then without the runner."""
    tail = f"=={version}" if version else ""
    if runner:
        yield f"{name}[{runner}]{tail}"
    yield f"{name}{tail}"


def of_readings(readings: list[EngineReading], base: Wiring) -> Iterator[Variant]:
    """Each reading that can be run and differs from the contract."""
    for reading in readings:
        done = to_reading(reading)
        if isinstance(done, CannotRun):
            continue
        wiring = replace(done.wiring, states=base.states)
        names = differing(base, wiring)
        if not names:
            continue
        because = "; ".join(filter(None, (_because(reading, n) for n in names)))
        yield Variant(
            in_words(base, wiring, names),
            wiring,
            because=f"{reading.reader} reads it so: {because}. Change what it reads, or train for it.",
            changed=frozenset(names),
        )


def _because(reading: EngineReading, name: str) -> str:
    label = FIELDS.get(name, name)
    try:
        found = reading.get(label)
    except KeyError:
        return ""
    return f"{label} is {found.value} ({_origin(found)}; {found.source})"


def _origin(found: Field) -> str:
    """Where a value comes from, in words."""
    if found.origin is Origin.KEY:
        return f"the key {found.key}"
    if found.origin is Origin.FLAG:
        return f"the flag {found.key}" if found.key else "the flags it was started with"
    if found.origin is Origin.DEFAULT:
        return f"its default, with no {' and no '.join(found.looked_for)}" if found.looked_for else "its default"
    words = found.origin.value.replace("_", "-")
    return f"{words}: {found.rule}" if found.rule else words
