"""Other wirings that an engine may have: its own reading of the files first, then one switch at a time. They are tried, not believed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor

from contract.errors import UserError
from contract.files.bundle_manifest import Manifest
from eagle3_contract.drafter.names import EMBEDDING, name_table
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.wiring import ConcatOrder, Feedback, LaterLayerNorm, Owner, Rope, Wiring
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.load import load_drafter, load_target
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.verify.inference import REFERENCE

THETAS: Final = (1e4, 1.5e5, 2.5e5, 5e5, 1e6, 5e6, 8e6, 1e7)
"""Bases in use: the default of every engine, gpt-oss, Phi, Llama 3, Qwen, and their long versions."""
EPSILONS: Final = (1e-5, 1e-6)
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


@dataclass(frozen=True, slots=True)
class Variant:
    """A wiring to try.

    Attributes:
        name: what differs from the contract, in words.
        wiring: all of it.
        source: the weights, where they are not the file's.
        because: which key or default of which engine makes it so, with its place in the engine's source.
    """

    name: str
    wiring: Wiring
    source: WeightSource | None = None
    because: str = ""
    changed: frozenset[str] = field(default_factory=frozenset)


def differing(a: Wiring, b: Wiring) -> list[str]:
    """Names of the fields in which two wirings differ, as far as a forward on recorded inputs can tell them."""
    silent = {"states", "step_positions", "positions_start", "token_shift", "target_vocab_size", "window_follows_steps"}
    return [n for n in a.__dataclass_fields__ if n not in silent and getattr(a, n) != getattr(b, n)]


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
                return list(read(view, reference, facts))
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
        yield Variant(_words(base, wiring, names), wiring, None, f"{reading.reader}: {because}", frozenset(names))


def _because(reading: EngineReading, name: str) -> str:
    label = FIELDS.get(name, name)
    try:
        found = reading.get(label)
    except KeyError:
        return ""
    return f"{label} is {found.value} ({found.origin.value}: {found.rule or found.key}; {found.source})"


def _words(base: Wiring, other: Wiring, names: list[str]) -> str:
    return ", ".join(f"{n} {_value(getattr(other, n))} instead of {_value(getattr(base, n))}" for n in names)


def _value(value: Any) -> str:
    if isinstance(value, Rope):
        more = f" {dict(value.scaling)}" if value.scaling else ""
        return f"{value.type}{' interleaved' if value.interleaved else ''} with theta {value.theta:g}{more}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def flips(base: Wiring, source: WeightSource, ropes: tuple[Rope, ...] = ()) -> Iterator[Variant]:
    """One switch at a time, as far as the weights are there for it; then each norm and bias as if it had not been loaded."""
    stored = name_table(source.names()).stored
    for change in _switches(base, stored, ropes):
        wiring = replace(base, **change)
        names = [n for n in change if getattr(base, n) != getattr(wiring, n)]
        yield Variant(_words(base, wiring, names), wiring, changed=frozenset(names))
    for name, file_name in stored.items():
        bias = name.endswith(".bias")
        if name.startswith(("layers.", "norm.")) and (bias or name.endswith("norm.weight")):
            made = torch.zeros if bias else torch.ones
            words = f"{'zeros' if bias else 'ones'} in place of {name}"
            yield Variant(words, base, Overridden(source, file_name, made(source.shape(file_name))), changed=frozenset({name}))


def _switches(base: Wiring, stored: Collection[str], ropes: tuple[Rope, ...]) -> Iterator[dict[str, Any]]:
    yield {"norm_before_residual": not base.norm_before_residual}
    first = base.concat_order is ConcatOrder.EMBEDDING_FIRST
    yield {"concat_order": ConcatOrder.HIDDEN_FIRST if first else ConcatOrder.EMBEDDING_FIRST}
    yield {"double_norm": not base.double_norm}
    if base.hidden_norm or "layers.0.hidden_norm.weight" in stored:
        yield {"hidden_norm": not base.hidden_norm}
    if base.final_norm or "norm.weight" in stored:
        yield {"final_norm": not base.final_norm, "feedback": Feedback.PRE_NORM}
    if base.final_norm:
        yield {"feedback": Feedback.PRE_NORM if base.feedback is Feedback.POST_NORM else Feedback.POST_NORM}
    yield from ({"rope": r} for r in _ropes(base.rope, ropes))
    if base.window is not None:
        yield {"window": None}
    yield from ({"rms_norm_eps": e} for e in EPSILONS if e != base.rms_norm_eps)
    other = Owner.TARGET if base.embedding is Owner.OWN else Owner.OWN
    if other is Owner.TARGET or EMBEDDING in stored:
        yield {"embedding": other}
    if base.qk_norm or "layers.0.self_attn.q_norm.weight" in stored:
        yield {"qk_norm": not base.qk_norm}
    yield from ({name: False} for name in ("qkv_bias", "o_bias", "mlp_bias") if getattr(base, name))
    if base.attention_scale is not None:
        yield {"attention_scale": None}
    yield from ({"hidden_act": a} for a in ("silu", "gelu", "gelu_pytorch_tanh", "relu") if a != base.hidden_act)
    if base.layers > 1:
        yield from ({"later_layer_norm": n} for n in LaterLayerNorm if n is not base.later_layer_norm)


def _ropes(base: Rope, more: tuple[Rope, ...]) -> Iterator[Rope]:
    seen = [base]
    plain = replace(base, type="default", scaling={})
    for rope in (*more, plain, replace(base, interleaved=not base.interleaved), *(replace(base, theta=t) for t in THETAS)):
        if rope not in seen:
            seen.append(rope)
            yield rope


class Overridden:
    """A checkpoint with one tensor replaced."""

    def __init__(self, source: WeightSource, name: str, value: Tensor) -> None:
        self._source, self._name, self._value = source, name, value
        self.label = source.label

    def names(self) -> Collection[str]:
        return self._source.names()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._source.shape(name)

    def tensor(self, name: str) -> Tensor:
        return self._value if name == self._name else self._source.tensor(name)

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        return self._source.rows(name, ids_L)


class Kept:
    """A checkpoint whose tensors are read once and kept in float32, so that the many variants built of them share them."""

    def __init__(self, source: WeightSource) -> None:
        self._source, self._held = source, dict[str, Tensor]()
        self.label = source.label

    def names(self) -> Collection[str]:
        return self._source.names()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._source.shape(name)

    def tensor(self, name: str) -> Tensor:
        if name not in self._held:
            found = self._source.tensor(name)
            self._held[name] = found.to(torch.float32) if found.is_floating_point() else found
        return self._held[name]

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        return self._source.rows(name, ids_L)
